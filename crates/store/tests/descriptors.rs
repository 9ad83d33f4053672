//! A store in a process that has as many files open as it may. The limit is the whole process's, so this test has
//! one to itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::fs::File;

use fixture::Fixture;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vfs::{Error, FileSystem, ObjectId};

/// Opens files until no more can be.
fn take_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// 4,090 silent connections at the limit of 4,096 were enough to end a server: a data file that could not be opened was
/// taken for a disk that had failed.
#[tokio::test]
async fn the_lack_of_descriptors_is_no_failure_of_the_disk_and_passes() {
    let limit = Rlimit {
        current: Some(256),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut store = Fixture::new();
    let mut files = Vec::new();
    for number in 0..20 {
        let file = store.file(ObjectId::ROOT, &format!("file {number}")).await;
        store.write(file, 0, b"before").await.unwrap();
        files.push(file);
    }

    // Files that rest go for those that are wanted.
    let taken = take_all();
    let new = store.file(ObjectId::ROOT, "new").await;
    store.write(new, 0, b"made meanwhile").await.unwrap();
    for file in files.iter().chain([&new]) {
        store.write(*file, 0, b"after").await.unwrap();
        store.store().commit(*file, 0, 0).await.unwrap();
    }
    drop(taken);

    // None rests any more: clients are asked to come again.
    store.reopen().await;
    let taken = take_all();
    assert_eq!(store.read(new, 0, 5).await, Err(Error::Delay));
    assert_eq!(store.write(new, 0, b"later").await, Err(Error::Delay));
    assert!(!store.store().statistics().failed);
    drop(taken);
    store.write(new, 0, b"later").await.unwrap();
    store.store().commit(new, 0, 0).await.unwrap();
    assert_eq!(store.read(new, 0, 5).await.unwrap(), &b"later"[..]);
    assert_eq!(store.read(files[0], 0, 5).await.unwrap(), &b"after"[..]);
}
