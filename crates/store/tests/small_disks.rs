//! Real small disks that clients fill with many writers at once: removal works to the end, and the store always opens.
//!
//! Needs loop devices and the superuser; for anybody else these tests say so and prove nothing. `STORE_SMALL_DISKS=all` tries
//! more kinds of disks and numbers of writers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use fixture::disk::SmallDisk;
use fixture::{Approver, file, name, root, with_size};
use store::{NewStore, Store, StoreOptions};
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

/// Writes until there is no room. Returns the names of all files.
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

/// Fills the disk beside the store, to the last byte.
fn fill_beside(disk: &Path) -> PathBuf {
    let path = disk.join("beside");
    let mut file = File::create(&path).unwrap();
    let block = vec![1; 4096];
    while std::io::Write::write_all(&mut file, &block).is_ok() {}
    path
}

/// Each writer saw the same free space, and together they filled the reserve: then nothing could be removed any more,
/// and a restart did not help.
async fn fill_and_empty(disk: &SmallDisk, writers: u32, is_member: bool) {
    let options = StoreOptions::new(disk.path().join(format!("store{writers}")));
    let store = Arc::new(Store::create(&options, &NewStore::default()).unwrap());
    // A member of a set records what it changes for the others.
    let _overseer = is_member.then(|| Approver::of(&store));
    store.end_reclaim().await.unwrap();
    let mut names = fill(&store, writers).await;
    assert!(names.len() > 10, "{names:?}");
    store.sync().await.unwrap();
    assert!(!store.statistics().failed);
    drop(store);

    let store = Store::open(&options).unwrap();
    let _overseer = is_member.then(|| Approver::of(&store));
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
    // What a member goes through includes what a server on its own does.
    let (makers, writers, members) = match tries_all() {
        true => (&DISKS[..], &[1, 8, 64][..], &[false, true][..]),
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

/// Sizes, and what makes them; XFS refuses smaller ones.
const DISKS: [(u64, &[&str]); 3] = [
    (200, &["mkfs.ext4", "-q", "-m", "5"]),
    (200, &["mkfs.ext4", "-q", "-m", "0"]),
    (320, &["mkfs.xfs", "-q"]),
];

fn tries_all() -> bool {
    std::env::var("STORE_SMALL_DISKS").is_ok_and(|which| which == "all")
}

/// At a member of a set locks are rows, and no lock asked for room: they used up what is kept for removals.
async fn lock_for_long(store: &Store) -> Arc<Approver> {
    let approver = Approver::of(store);
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
    approver
}

/// What somebody else takes cannot be kept back, but for the ballast.
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
    let _approver = lock_for_long(&store).await;
    for number in 0..100 {
        let text = name(&format!("f{number}"));
        store.lookup(&who, ROOT, &text).await.unwrap();
        store.remove(&who, ROOT, &text).await.unwrap();
    }
    drop(store);
    // It opens as well, though the ballast is gone.
    let store = Store::open(&options).unwrap();
    store.end_reclaim().await.unwrap();
    store.remove(&who, ROOT, &name("f150")).await.unwrap();
    fs::remove_file(beside).unwrap();
    // And comes back by itself.
    while make(&store, "after").await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    while ballast.metadata().unwrap().len() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    drop(store);
    assert!(Store::check(&options.directory, false).unwrap().sound);
}
