//! A store continues to work while its process has reached its limit of open files: tables are written out, merged and read, and
//! journals created. The limit applies to the whole process, so this test has its own process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::fs::File;

use fixture::{Fixture, root};
use plain_file::descriptors;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vfs::{Error, FileSystem, ObjectId, XattrMode, XattrName};

fn limit(descriptors: u64) {
    let limit = Rlimit {
        current: Some(descriptors),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Opens files up to the limit, like code that may open many.
fn take_all() -> Vec<File> {
    let open = || File::open("/dev/null").and_then(descriptors::above);
    std::iter::from_fn(|| open().ok()).collect()
}

/// Gives each file a long attribute; these fill buffers of rows, tables and journals.
async fn attribute(store: &Fixture, files: &[ObjectId], round: u8) -> Result<(), Error> {
    let name = XattrName::new(b"user".to_vec()).unwrap();
    for file in files {
        let value = vec![round; 60 << 10].into();
        let files = store.store();
        files
            .set_xattr(&root(), *file, &name, value, XattrMode::Any)
            .await?;
    }
    Ok(())
}

/// The embedded store ended at the first table or journal that it could not open, and the server with it: "Poisoned".
#[tokio::test(flavor = "multi_thread")]
async fn tables_are_written_out_and_merged_while_descriptors_are_lacking() {
    limit(256);
    let store = Fixture::new();
    let mut files = Vec::new();
    for number in 0..100 {
        files.push(store.file(ObjectId::ROOT, &format!("file {number}")).await);
    }

    // No descriptor is left, not even for operations that must not fail: changes collect in memory, up to a bound.
    limit(8);
    let mut rounds = 0..40;
    let stuck = loop {
        let round = rounds.next().expect("changes gather without bound");
        if let Err(error) = attribute(&store, &files, round).await {
            break error;
        }
    };
    assert_eq!(stuck, Error::Delay);
    limit(256);
    while let Err(error) = attribute(&store, &files, 0).await {
        assert_eq!(error, Error::Delay);
    }

    // Other code has all descriptors it may use.
    let taken = take_all();
    assert!(!taken.is_empty());
    for round in 0..20 {
        attribute(&store, &files, round).await.unwrap();
    }
    // The limit is lowered in the middle of the work.
    limit(u64::try_from(descriptors::low()).unwrap() + 1);
    for round in 0..20 {
        attribute(&store, &files, round).await.unwrap();
    }
    assert!(!store.store().statistics().failed);
    drop(taken);
}
