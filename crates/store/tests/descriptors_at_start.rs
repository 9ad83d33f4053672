//! A process that has reached its limit of open files opens or checks a store. The limit applies to the whole process, so
//! this test has its own process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::fs::File;
use std::time::Duration;

use fixture::{Fixture, root};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::{Store, StoreError};
use vfs::{FileSystem, ObjectId, XattrMode, XattrName};

const LIMIT: u64 = 200;

/// Opens files until only `spare` more can be opened.
fn take_all_but(spare: usize) -> Vec<File> {
    let mut taken: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    taken.truncate(taken.len() - spare);
    taken
}

/// The number of failed attempts before one succeeds, with more and more spare descriptors.
fn failures<T>(what: &str, attempt: impl Fn() -> Result<T, StoreError>) -> usize {
    for spare in 0..LIMIT as usize / 2 {
        let taken = take_all_but(spare);
        let outcome = attempt();
        drop(taken);
        let error = match outcome {
            Ok(_) => return spare,
            Err(error) => error,
        };
        // Background tasks release their descriptors.
        std::thread::sleep(Duration::from_millis(5));
        let told = error.to_string();
        assert!(
            matches!(error, StoreError::Io { .. })
                && told.contains("raise the limit of open files"),
            "{what}, {spare} to spare: {told}"
        );
    }
    panic!("{what} never came through");
}

/// A server that lacked descriptors at its start reported that the disk had damaged its metadata, and offered to give
/// the metadata up.
#[tokio::test(flavor = "multi_thread")]
async fn the_lack_of_descriptors_says_nothing_of_what_is_stored() {
    let limit = Rlimit {
        current: Some(LIMIT),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut store = Fixture::new();
    // Enough for tables, which are opened at the start as well.
    for number in 0..200 {
        let file = store.file(ObjectId::ROOT, &format!("file {number}")).await;
        store.write(file, 0, b"content").await.unwrap();
        let name = XattrName::new(b"user".to_vec()).unwrap();
        let value = vec![number; 60 << 10].into();
        let files = store.store();
        files
            .set_xattr(&root(), file, &name, value, XattrMode::Any)
            .await
            .unwrap();
    }
    store.close();

    let options = store.options.clone();
    let directory = options.directory.clone();
    assert!(failures("the check", || Store::check(&directory, false)) > 3);
    assert!(failures("opening", || Store::open(&options)) > 3);
    let report = Store::check(&directory, false).unwrap();
    assert!(report.sound, "{report}");
    store.reopen_unsynced();
    let last = store.find(ObjectId::ROOT, "file 199").await.unwrap();
    assert_eq!(store.content(last).await, &b"content"[..]);
}
