//! Real small disks that clients fill with many concurrent writers: removal always works, and the store always opens.
//!
//! Needs loop devices and the superuser; otherwise these tests report that and prove nothing. `STORE_SMALL_DISKS=all` tries
//! more kinds of disks and numbers of writers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fixture::disk::SmallDisk;
use crate::fixture::pair::{LEADER, apply, file_of, update};
use crate::fixture::{Approver, file, name, root, with_size};
use bytes::Bytes;
use store::{ForeignUpdate, NewStore, Store, StoreOptions};
use vfs::{
    AccessCheck, ByteRange, Error, FileSystem, LockKind, LockOwner, ObjectId, Result,
    SetAttributes, Stability,
};

const ROOT: ObjectId = ObjectId::ROOT;

async fn make(store: &Store, text: &str) -> Result<ObjectId> {
    let set = SetAttributes::default();
    let made = store
        .create(&root(), ROOT, &name(text), file(), &set)
        .await?;
    Ok(made.attributes.id)
}

/// Writes until there is no space. Returns the names of all files.
async fn fill(store: &Arc<Store>, writers: u32) -> Vec<String> {
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let who = root();
            let data = Bytes::from(vec![7; 1 << 20]);
            let mut names = Vec::new();
            for number in 0.. {
                let text = format!("f{writer}.{number}");
                let id = match make(&store, &text).await {
                    Ok(id) => id,
                    Err(error) => {
                        assert_eq!(error, Error::NoSpace);
                        return names;
                    }
                };
                names.push(text);
                for block in 0..4 {
                    let access = AccessCheck::Credentials(&who);
                    let offset = block << 20;
                    let written =
                        store.write(access, id, offset, data.clone(), Stability::Unstable);
                    match written.await {
                        Ok(_) => {}
                        Err(error) => {
                            assert_eq!(error, Error::NoSpace);
                            break;
                        }
                    }
                }
            }
            unreachable!("the disk never fills up")
        });
    }
    tasks.join_all().await.concat()
}

/// Fills the disk with a file outside the store, to the last byte.
fn fill_beside(disk: &Path) -> PathBuf {
    let path = disk.join("beside");
    let mut file = File::create(&path).unwrap();
    let block = vec![1; 4096];
    while std::io::Write::write_all(&mut file, &block).is_ok() {}
    path
}

/// A member of a set records its changes for the other members.
fn hooked(store: Store, is_member: bool) -> Store {
    match is_member {
        true => Approver::of(store).0,
        false => store,
    }
}

/// Each writer saw the same free space, and together they used up the reserve: then no file could be removed any more,
/// and a restart did not help.
async fn fill_and_empty(disk: &SmallDisk, writers: u32, is_member: bool) {
    let options = StoreOptions::new(disk.path().join(format!("store{writers}")));
    let store = Store::create(&options, &NewStore::default()).unwrap();
    let store = Arc::new(hooked(store, is_member));
    store.end_reclaim().await.unwrap();
    let mut names = fill(&store, writers).await;
    assert!(names.len() > 10, "{names:?}");
    store.sync().await.unwrap();
    assert!(!store.statistics().failed);
    drop(store);

    let store = hooked(Store::open(&options).unwrap(), is_member);
    store.end_reclaim().await.unwrap();
    let who = root();
    let cut = names.split_off(names.len() / 2);
    for text in &cut {
        let found = store.lookup(&who, ROOT, &name(text)).await.unwrap();
        let access = AccessCheck::Credentials(&who);
        store
            .set_attributes(access, found.id, &with_size(0))
            .await
            .unwrap();
    }
    for text in names.iter().chain(&cut) {
        store.remove(&who, ROOT, &name(text)).await.unwrap();
    }
    drop(store);
    assert!(Store::check(&options.directory, false).unwrap().sound);
    fs::remove_dir_all(&options.directory).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_fill_they_can_empty() {
    // A test with a member covers a single server as well.
    let (makers, writers, members) = match tries_all() {
        true => (
            &DISKS[..],
            &[1, 2, 4, 8, 16, 32, 64][..],
            &[false, true][..],
        ),
        false => (&DISKS[1..2], &[64][..], &[true][..]),
    };
    for (mebibytes, maker) in makers {
        let Some(disk) = SmallDisk::made(*mebibytes, maker) else {
            continue;
        };
        for writers in writers {
            for is_member in members {
                fill_and_empty(&disk, *writers, *is_member).await;
            }
        }
    }
}

/// When a write extends a file, XFS allocates as much again as the file has, while other writes wait for space: writers used up the
/// reserve, and truncation was refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_grows_takes_up_what_it_has() {
    for (mebibytes, maker) in DISKS {
        let Some(disk) = SmallDisk::made(mebibytes, maker) else {
            continue;
        };
        let options = StoreOptions::new(disk.path().join("store"));
        let store = Store::create(&options, &NewStore::default()).unwrap();
        store.end_reclaim().await.unwrap();
        let id = make(&store, "grows").await.unwrap();
        let who = root();
        let data = Bytes::from(vec![7; 1 << 20]);
        for block in 0..9 {
            let access = AccessCheck::Credentials(&who);
            let written = store.write(access, id, block << 20, data.clone(), Stability::Unstable);
            written.await.unwrap();
        }
        store.sync().await.unwrap();
        let found = store.lookup(&who, ROOT, &name("grows")).await.unwrap();
        assert_eq!(found.size, 9 << 20);
        assert!(found.space_used < 10 << 20, "{maker:?}: {found:?}");
    }
}

/// Sizes, and the commands that create the file systems; XFS refuses smaller sizes.
const DISKS: [(u64, &[&str]); 3] = [
    (200, &["mkfs.ext4", "-q", "-m", "5"]),
    (200, &["mkfs.ext4", "-q", "-m", "0"]),
    (320, &["mkfs.xfs", "-q"]),
];

fn tries_all() -> bool {
    std::env::var("STORE_SMALL_DISKS").is_ok_and(|which| which == "all")
}

/// At a member of a set locks are rows, but locking requested no space: locks used up the reserve for removals.
async fn lock_for_long(store: Store) -> Store {
    let (store, _) = Approver::of(store);
    let who = root();
    let found = store.lookup(&who, ROOT, &name("f199")).await.unwrap();
    let owner = LockOwner {
        client: Arc::from(&b"client"[..]),
        owner: Arc::from(&b"owner"[..]),
    };
    for _ in 0..if tries_all() { 10_000 } else { 2_000 } {
        let all = ByteRange::EVERYTHING;
        for outcome in [
            store.lock(found.id, &owner, all, LockKind::Write).await,
            store.unlock(found.id, &owner, all).await,
        ] {
            assert!(matches!(outcome, Ok(()) | Err(Error::Delay)), "{outcome:?}");
        }
    }
    assert!(!store.statistics().failed);
    store
}

/// Space that other programs use cannot be reserved, except by the ballast.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_others_fill_the_disk_reading_and_removal_go_on() {
    let makers = if tries_all() {
        &DISKS[..]
    } else {
        &DISKS[1..2]
    };
    for (mebibytes, maker) in makers {
        if let Some(disk) = SmallDisk::made(*mebibytes, maker) {
            others_fill(&disk).await;
        }
    }
}

async fn others_fill(disk: &SmallDisk) {
    let options = StoreOptions::new(disk.path().join("store"));
    let store = Store::create(&options, &NewStore::default()).unwrap();
    store.end_reclaim().await.unwrap();
    let who = root();
    for number in 0..200 {
        make(&store, &format!("f{number}")).await.unwrap();
    }
    let ballast = options.directory.join("ballast");
    while !ballast.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let beside = fill_beside(&disk.path());
    assert_eq!(make(&store, "new").await.unwrap_err(), Error::NoSpace);
    assert!(
        store.occupied_bytes().unwrap() < 64 << 20,
        "what others have counts as ours"
    );
    let store = lock_for_long(store).await;
    for number in 0..100 {
        let text = name(&format!("f{number}"));
        store.lookup(&who, ROOT, &text).await.unwrap();
        store.remove(&who, ROOT, &text).await.unwrap();
    }
    drop(store);
    // It opens although the ballast is gone.
    let store = Store::open(&options).unwrap();
    store.end_reclaim().await.unwrap();
    store.remove(&who, ROOT, &name("f150")).await.unwrap();
    fs::remove_file(beside).unwrap();
    // The ballast comes back by itself.
    while make(&store, "after").await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    while ballast.metadata().unwrap().len() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    drop(store);
    assert!(Store::check(&options.directory, false).unwrap().sound);
}

/// The member that makes the changes and one that follows it, each on its own disk.
struct Members {
    leader: Arc<Store>,
    follower: Store,
    options: StoreOptions,
}

impl Members {
    async fn on(leader: &SmallDisk, follower: &SmallDisk) -> Members {
        let options = StoreOptions::new(leader.path().join("store"));
        let leader = Store::create(&options, &NewStore::default()).unwrap();
        leader.end_reclaim().await.unwrap();
        let new = NewStore {
            tree: Some(leader.tree()),
            slot: vfs::ReplicaSlot(2),
            ..NewStore::default()
        };
        let options = StoreOptions::new(follower.path().join("store"));
        let follower = Store::create(&options, &new).unwrap();
        follower.end_reclaim().await.unwrap();
        Members {
            leader: Arc::new(Approver::of(leader).0),
            follower,
            options,
        }
    }

    /// Makes the follower apply new updates, until there is no space for them. Returns whether that was all.
    async fn follow(&self) -> bool {
        let from = self.follower.applied(LEADER).unwrap() + 1;
        for record in self.leader.updates(from, usize::MAX).unwrap() {
            let files = record.changes.iter().filter_map(file_of);
            // A file that was removed since has no content to send.
            let files = files.filter(|id| self.leader.file_size(*id).is_ok());
            let update = ForeignUpdate {
                incomplete: files.collect(),
                ..update(record)
            };
            match apply(&self.follower, update, &mut Vec::new()).await {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error, Error::NoSpace);
                    return false;
                }
            }
        }
        true
    }

    /// Sends missing contents to the follower, as far as there is space.
    async fn ship(&self) {
        for (id, _, position) in self.follower.incomplete_files(LEADER).unwrap() {
            let size = self.leader.file_size(id).unwrap();
            for piece in self.leader.content(id, 0, size).unwrap() {
                match self.follower.put_content(id, piece).await {
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error, Error::NoSpace);
                        return;
                    }
                }
            }
            let noted = self.follower.note_complete(id, LEADER, position);
            noted.await.unwrap();
        }
    }

    async fn reopen_follower(self) -> Members {
        drop(self.follower);
        let follower = Store::open(&self.options).unwrap();
        follower.end_reclaim().await.unwrap();
        Members { follower, ..self }
    }
}

/// A follower cannot refuse creations and removals of other members. On a disk of the same size it has space for all their rows. Whatever else
/// fills its disk, removal continues as soon as there is some space, and the follower never fails.
async fn follow_full(disks: [SmallDisk; 2], writers: u32) {
    let [one, other] = &disks;
    let members = Members::on(one, other).await;
    let names = fill(&members.leader, writers).await;
    assert!(names.len() > 10, "{names:?}");
    assert!(members.follow().await);
    members.ship().await;
    assert!(!members.follower.statistics().failed);
    let members = members.reopen_follower().await;
    let beside = fill_beside(&other.path());
    let who = root();
    let (cut, removed) = names.split_at(names.len() / 2);
    for text in cut {
        let found = members.leader.lookup(&who, ROOT, &name(text)).await;
        let access = AccessCheck::Credentials(&who);
        let found = found.unwrap();
        let set = with_size(found.size.min(1_000_000));
        let done = (members.leader).set_attributes(access, found.id, &set);
        done.await.unwrap();
    }
    for text in removed.iter().chain(cut) {
        let text = name(text);
        let done = members.leader.remove(&who, ROOT, &text);
        done.await.unwrap();
    }
    members.follow().await;
    assert!(!members.follower.statistics().failed);
    fs::remove_file(beside).unwrap();
    while !members.follow().await {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    make(&members.leader, "after").await.unwrap();
    assert!(members.follow().await);
    members.ship().await;
    assert_eq!(members.follower.statistics().objects, 2);
    let options = members.options.clone();
    drop(members);
    assert!(Store::check(&options.directory, false).unwrap().sound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_goes_along_when_disks_are_filled_and_emptied() {
    let (makers, writers) = match tries_all() {
        true => (&DISKS[..], &[1, 64][..]),
        false => (&DISKS[1..2], &[64][..]),
    };
    for (mebibytes, maker) in makers {
        for writers in writers {
            let disk = || SmallDisk::made(*mebibytes, maker);
            if let (Some(one), Some(other)) = (disk(), disk()) {
                follow_full([one, other], *writers).await;
            }
        }
    }
}
