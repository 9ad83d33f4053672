//! Small stable writes are answered before their data files are stable. These tests remove the data files,
//! as a power failure would do before they are stable.

use std::fs;
use std::path::Path;

use crate::fixture::{Fixture, name, root, with_size};
use store::Store;
use vfs::{FileSystem, ObjectId, Stability};

/// Removes every data file, at any depth.
fn lose_data_files(directory: &Path) -> usize {
    let mut lost = 0;
    for child in fs::read_dir(directory).unwrap() {
        let path = child.unwrap().path();
        if path.is_dir() {
            lost += lose_data_files(&path);
        } else {
            fs::remove_file(path).unwrap();
            lost += 1;
        }
    }
    lost
}

async fn write_stably(store: &Fixture, id: ObjectId, offset: u64, data: &[u8]) {
    store
        .write_as(&root(), id, offset, data, Stability::File)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_small_stable_write_outlives_its_data_file() {
    let mut store = Fixture::new();
    let first = store.file(ObjectId::ROOT, "first").await;
    let second = store.file(ObjectId::ROOT, "second").await;
    let long: Vec<u8> = (0..10_000_u32).map(|at| (at % 251) as u8).collect();
    write_stably(&store, first, 0, &long).await;
    write_stably(&store, first, 5_000, b"and over it").await;
    write_stably(&store, second, 3, b"x").await;
    store.close();
    let lost = lose_data_files(&store.options.directory.join("data"));
    assert!(lost >= 2, "the data files were there before");
    store.reopen_unsynced();
    let mut expected = long;
    expected[5_000..5_011].copy_from_slice(b"and over it");
    assert_eq!(store.content(first).await, expected);
    assert_eq!(store.content(second).await, &b"\0\0\0x"[..]);
    // The restored data is stable now and is not restored again.
    store.reopen_unsynced();
    assert_eq!(store.content(first).await, expected);
}

#[tokio::test]
async fn a_kept_write_does_not_come_back_over_a_committed_one() {
    let mut store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    write_stably(&store, id, 0, b"old old old").await;
    store.write(id, 4, b"new").await.unwrap();
    store.store().commit(id, 0, 0).await.unwrap();
    store.reopen_unsynced();
    assert_eq!(store.content(id).await, &b"old new old"[..]);
}

#[tokio::test]
async fn a_kept_write_does_not_come_back_over_a_large_stable_one() {
    let mut store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    write_stably(&store, id, 0, b"old").await;
    write_stably(&store, id, 0, &vec![7; 100_000]).await;
    store.reopen_unsynced();
    assert_eq!(store.content(id).await, vec![7; 100_000]);
}

#[tokio::test]
async fn a_kept_write_does_not_come_back_behind_a_smaller_size() {
    let mut store = Fixture::new();
    for (text, size) in [("part", 4), ("all", 0)] {
        let id = store.file(ObjectId::ROOT, text).await;
        write_stably(&store, id, 0, b"0123456789").await;
        store.set(id, &with_size(size)).await.unwrap();
        store.set(id, &with_size(10)).await.unwrap();
        store.reopen_unsynced();
        let mut expected = [0; 10];
        expected[..size as usize].copy_from_slice(&b"0123456789"[..size as usize]);
        assert_eq!(store.content(id).await, expected[..], "cut to {size}");
    }
}

#[tokio::test]
async fn kept_writes_go_with_their_file() {
    let mut store = Fixture::new();
    store.store().end_reclaim().await.unwrap();
    let id = store.file(ObjectId::ROOT, "f").await;
    write_stably(&store, id, 0, b"gone soon").await;
    let who = root();
    store
        .store()
        .remove(&who, ObjectId::ROOT, &name("f"))
        .await
        .unwrap();
    store.close();
    let report = Store::check(&store.options.directory, false).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[tokio::test]
async fn a_graceful_stop_leaves_nothing_to_restore() {
    let mut store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    write_stably(&store, id, 0, b"here to stay").await;
    store.store().sync().await.unwrap();
    assert_eq!(store.store().statistics().dirty_files, 0);
    store.close();
    let report = Store::check(&store.options.directory, false).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    store.reopen_unsynced();
    assert_eq!(store.content(id).await, &b"here to stay"[..]);
}

#[tokio::test]
async fn many_small_writes_to_one_file_are_all_stable() {
    let mut store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "log").await;
    let mut expected = Vec::new();
    // More than the limit for one file, so that the data file is made stable in between.
    for number in 0..100_u32 {
        let line = vec![number as u8; 4096];
        write_stably(&store, id, expected.len() as u64, &line).await;
        expected.extend_from_slice(&line);
    }
    store.reopen_unsynced();
    assert_eq!(store.content(id).await, expected);
}

/// The content of a file after a crash now.
async fn content_after_crash(store: &Fixture, id: ObjectId) -> bytes::Bytes {
    let crashed = store.crashed_copy();
    let after = Store::open(&crashed).unwrap();
    let who = root();
    let read = after
        .read(vfs::AccessCheck::Open(&who), id, 0, 1 << 20)
        .await;
    drop(after);
    std::fs::remove_dir_all(&crashed.directory).unwrap();
    read.unwrap().bytes
}

/// The commit was answered before the removal of the kept write's row was stable; a kill restored the row.
#[tokio::test]
async fn a_kept_write_does_not_come_back_when_the_process_is_killed_after_a_commit() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    for _ in 0..20 {
        write_stably(&store, id, 0, b"old old old").await;
        store.write(id, 4, b"new").await.unwrap();
        store.store().commit(id, 0, 0).await.unwrap();
        assert_eq!(content_after_crash(&store, id).await, &b"old new old"[..]);
    }
}

/// The same with a stable write that is too large to be kept.
#[tokio::test]
async fn a_kept_write_does_not_come_back_when_the_process_is_killed_after_a_large_write() {
    let store = Fixture::new();
    let id = store.file(ObjectId::ROOT, "f").await;
    for _ in 0..20 {
        write_stably(&store, id, 0, b"old").await;
        write_stably(&store, id, 0, &[7; 100_000]).await;
        assert_eq!(content_after_crash(&store, id).await, vec![7; 100_000]);
    }
}
