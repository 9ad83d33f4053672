//! Opens, their denials, byte-range locks, and files that exist without a name because they are open.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fixture::{Fixture, READ, WRITE, open_owner, root, symlink, user, with_size};
use store::Store;
use vfs::{
    AccessCheck, ByteRange, Error, FileSystem, LockKind, LockOwner, ObjectId, Share, Stability,
};

const ROOT: ObjectId = ObjectId::ROOT;

fn data_files(store: &Path) -> usize {
    let children = |path: &Path| -> Vec<_> {
        std::fs::read_dir(path)
            .unwrap()
            .map(|child| child.unwrap().path())
            .collect()
    };
    let inner = children(&store.join("data"))
        .into_iter()
        .flat_map(|outer| children(&outer));
    inner.map(|inner| children(&inner).len()).sum()
}

/// Waits until removed data is cleared away; there is no guaranteed time.
async fn until_cleared(store: &Fixture, expected: usize) {
    let start = Instant::now();
    while data_files(&store.options.directory) != expected {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "data is not cleared away"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn only_files_are_opened() {
    let store = Fixture::new();
    let link = store
        .make(ROOT, "s", symlink("f"))
        .await
        .unwrap()
        .attributes
        .id;
    assert_eq!(store.open(ROOT, "a", READ).await, Err(Error::IsDirectory));
    assert_eq!(store.open(link, "a", READ).await, Err(Error::IsSymlink));
    assert_eq!(
        store.open(ObjectId::from_u64(99), "a", READ).await,
        Err(Error::Stale)
    );
}

#[tokio::test]
async fn opening_checks_permission_for_what_is_new() {
    let store = Fixture::new();
    let id = store.owned_file("f", 10, 20, 0o640).await;
    let member = user(11, 20, &[]);
    let open = |share| {
        let member = member.clone();
        let store = &store;
        async move {
            let owner = open_owner("a");
            store
                .store()
                .open(AccessCheck::Credentials(&member), id, &owner, share)
                .await
        }
    };
    assert_eq!(open(WRITE).await, Err(Error::AccessDenied));
    open(READ).await.unwrap();
    let private = Share {
        deny_read: true,
        ..READ
    };
    assert_eq!(open(private).await, Err(Error::AccessDenied));
    let owner = open_owner("a");
    store
        .store()
        .open(AccessCheck::Open(&member), id, &owner, WRITE)
        .await
        .unwrap();
    // The owner holds both now.
    open(READ.union(WRITE)).await.unwrap();
}

#[tokio::test]
async fn a_program_that_may_be_executed_can_be_opened_for_reading() {
    let store = Fixture::new();
    let id = store.owned_file("f", 10, 20, 0o711).await;
    store.write(id, 0, b"\x7fELF").await.unwrap();
    let stranger = user(11, 21, &[]);
    let access = AccessCheck::Credentials(&stranger);
    store
        .store()
        .open(access, id, &open_owner("a"), READ)
        .await
        .unwrap();
    assert_eq!(
        store.store().read(access, id, 1, 3).await.unwrap().bytes,
        "ELF"
    );
    let writes = store
        .store()
        .open(access, id, &open_owner("a"), WRITE)
        .await;
    assert_eq!(writes, Err(Error::AccessDenied));
}

#[tokio::test]
async fn what_an_open_denies_binds_io_without_an_open() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    let private = Share {
        deny_read: true,
        deny_write: true,
        ..READ
    };
    store.open(id, "a", private).await.unwrap();
    assert_eq!(store.open(id, "b", READ).await, Err(Error::ShareDenied));
    assert_eq!(store.read(id, 0, 4).await, Err(Error::ShareDenied));
    assert_eq!(store.write(id, 0, b"x").await, Err(Error::ShareDenied));
    assert_eq!(store.set(id, &with_size(0)).await, Err(Error::ShareDenied));
    let who = root();
    store
        .store()
        .read(AccessCheck::Open(&who), id, 0, 4)
        .await
        .unwrap();
    store
        .store()
        .downgrade(id, &open_owner("a"), READ)
        .await
        .unwrap();
    assert_eq!(store.read(id, 0, 4).await.unwrap(), "data");
    store.store().close(id, &open_owner("a")).await.unwrap();
    store.store().close(id, &open_owner("a")).await.unwrap();
}

#[tokio::test]
async fn a_removed_file_keeps_its_data_while_it_is_open() {
    let store = Fixture::new();
    store.store().end_reclaim().await.unwrap();
    let id = store.file(ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    store.open(id, "a", READ).await.unwrap();
    store.open(id, "b", WRITE).await.unwrap();
    store.remove(ROOT, "f").await.unwrap();
    assert_eq!(
        (
            store.attributes(id).await.links,
            store.store().statistics().orphans
        ),
        (0, 1)
    );
    store.write(id, 4, b" more").await.unwrap();
    assert_eq!(store.content(id).await, "data more");
    assert_eq!(store.link(id, ROOT, "again").await, Err(Error::Stale));
    store.store().close(id, &open_owner("a")).await.unwrap();
    assert_eq!(store.content(id).await, "data more");
    store.store().close(id, &open_owner("b")).await.unwrap();
    assert_eq!(store.store().attributes(id).await, Err(Error::Stale));
    assert_eq!(store.store().statistics().orphans, 0);
    until_cleared(&store, 0).await;
}

#[tokio::test]
async fn a_file_replaced_by_a_renaming_lives_on_while_it_is_open() {
    let store = Fixture::new();
    store.store().end_reclaim().await.unwrap();
    let (old, _new) = (store.file(ROOT, "f").await, store.file(ROOT, "new").await);
    store.write(old, 0, b"old").await.unwrap();
    store.open(old, "a", READ).await.unwrap();
    store.rename((ROOT, "new"), (ROOT, "f")).await.unwrap();
    assert_eq!(store.content(old).await, "old");
    store.store().close(old, &open_owner("a")).await.unwrap();
    assert_eq!(store.store().attributes(old).await, Err(Error::Stale));
}

#[tokio::test]
async fn orphans_survive_a_restart_until_reclaiming_ends() {
    let mut store = Fixture::new();
    store.store().end_reclaim().await.unwrap();
    let (kept, lost) = (
        store.file(ROOT, "kept").await,
        store.file(ROOT, "lost").await,
    );
    for (id, text) in [(kept, "kept"), (lost, "lost")] {
        store.write(id, 0, b"data").await.unwrap();
        store.open(id, "a", READ).await.unwrap();
        store.remove(ROOT, text).await.unwrap();
    }
    store.reopen().await;
    assert_eq!(store.store().statistics().orphans, 2);
    store.open(kept, "a", READ).await.unwrap();
    store.store().end_reclaim().await.unwrap();
    assert_eq!(store.content(kept).await, "data");
    assert_eq!(store.store().attributes(lost).await, Err(Error::Stale));
    store.store().close(kept, &open_owner("a")).await.unwrap();
    assert_eq!(store.store().attributes(kept).await, Err(Error::Stale));
    until_cleared(&store, 0).await;
}

#[tokio::test]
async fn a_file_removed_before_clients_could_reclaim_waits_for_them() {
    let store = Fixture::new();
    let id = store.file(ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    store.remove(ROOT, "f").await.unwrap();
    store.open(id, "reclaims", READ).await.unwrap();
    store.store().end_reclaim().await.unwrap();
    assert_eq!(store.content(id).await, "data");
    store
        .store()
        .close(id, &open_owner("reclaims"))
        .await
        .unwrap();
    assert_eq!(store.store().attributes(id).await, Err(Error::Stale));
}

#[tokio::test]
async fn the_data_of_removed_files_is_cleared_away_even_after_a_restart() {
    let mut store = Fixture::new();
    store.store().end_reclaim().await.unwrap();
    for number in 0..300 {
        let id = store.file(ROOT, &format!("f{number}")).await;
        store.write(id, 0, b"data").await.unwrap();
    }
    assert_eq!(data_files(&store.options.directory), 300);
    for number in 0..300 {
        store.remove(ROOT, &format!("f{number}")).await.unwrap();
    }
    store.reopen_unsynced();
    until_cleared(&store, 0).await;
    store.close();
    let report = Store::check(&store.options.directory, false).unwrap();
    assert!(report.sound, "{report}");
}

#[tokio::test]
async fn locks_exclude_owners_and_end_with_the_file() {
    let store = Fixture::new();
    store.store().end_reclaim().await.unwrap();
    let id = store.file(ROOT, "f").await;
    let owner = |text: &str| LockOwner {
        client: Arc::from(&b"client"[..]),
        owner: Arc::from(text.as_bytes()),
    };
    let (a, b) = (owner("a"), owner("b"));
    let range = ByteRange::from_bounds(0, 9).unwrap();
    let files = store.store();
    files.lock(id, &a, range, LockKind::Write).await.unwrap();
    let conflict = files
        .test_lock(id, &b, range, LockKind::Read)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&conflict.owner, conflict.range), (&a, range));
    let refused = files.lock(id, &b, range, LockKind::Read).await;
    assert_eq!(refused, Err(Error::Locked(Box::new(conflict))));
    assert!(files.holds_lock(id, &a).await.unwrap() && !files.holds_lock(id, &b).await.unwrap());
    files.unlock(id, &a, range).await.unwrap();
    assert_eq!(
        files.test_lock(id, &b, range, LockKind::Write).await,
        Ok(None)
    );
    files.lock(id, &b, range, LockKind::Write).await.unwrap();
    store.remove(ROOT, "f").await.unwrap();
    assert!(!files.holds_lock(id, &b).await.unwrap());
    assert_eq!(
        files.lock(id, &a, range, LockKind::Read).await,
        Err(Error::Stale)
    );
    assert_eq!(
        files.lock(ROOT, &a, range, LockKind::Read).await,
        Err(Error::IsDirectory)
    );
}

#[tokio::test]
async fn closing_and_unlocking_what_is_gone_does_nothing() {
    let store = Fixture::new();
    let gone = ObjectId::from_u64(99);
    store.store().close(gone, &open_owner("a")).await.unwrap();
    let owner = LockOwner {
        client: Arc::from([]),
        owner: Arc::from([]),
    };
    let range = ByteRange::from_bounds(0, 9).unwrap();
    store.store().unlock(gone, &owner, range).await.unwrap();
    let id = store.file(ROOT, "f").await;
    assert!(
        store
            .store()
            .downgrade(id, &open_owner("a"), READ)
            .await
            .is_err()
    );
    store
        .write_as(&root(), id, 0, b"", Stability::File)
        .await
        .unwrap();
}
