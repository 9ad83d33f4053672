//! A store in a process that has reached its limit of open files. The limit applies to the whole process, so this test has
//! its own process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::fs::File;

use fixture::Fixture;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vfs::{Error, FileSystem, ObjectId};

/// Opens files up to the limit.
fn take_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// With 4,090 silent connections at the limit of 4,096 a server ended: a data file that could not be opened was
/// treated as a failed disk.
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

    // Idle files are closed for new ones.
    let taken = take_all();
    let new = store.file(ObjectId::ROOT, "new").await;
    store.write(new, 0, b"made meanwhile").await.unwrap();
    for file in files.iter().chain([&new]) {
        store.write(*file, 0, b"after").await.unwrap();
        store.store().commit(*file, 0, 0).await.unwrap();
    }
    drop(taken);

    // No idle file is left: clients are asked to retry.
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
