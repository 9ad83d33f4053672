//! The directory of an open store is moved away, replaced, or claimed by another process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::fixture::{Fixture, root};
use store::Store;
use vfs::{AccessCheck, FileSystem, ObjectId, Stability};

const BYTES: usize = 40_000;

fn away(store: &Fixture) -> PathBuf {
    store.options.directory.with_extension("away")
}

/// Creates files until the store has failed. Returns those for which every operation was answered.
async fn write_until_it_ends(store: &Fixture) -> Vec<ObjectId> {
    let mut answered = Vec::new();
    for number in 0.. {
        let store = store.store();
        if store.statistics().failed {
            break;
        }
        let name = vfs::Name::new(format!("meanwhile {number}").into_bytes()).unwrap();
        let new = vfs::NewObject::File(vfs::Creation::Guarded);
        let set = vfs::SetAttributes::default();
        let Ok(made) = store
            .create(&root(), ObjectId::ROOT, &name, new, &set)
            .await
        else {
            continue;
        };
        let (who, id) = (root(), made.attributes.id);
        let data = bytes::Bytes::from(vec![7; BYTES]);
        let written = store.write(
            AccessCheck::Credentials(&who),
            id,
            0,
            data,
            Stability::Unstable,
        );
        if written.await.is_ok() && store.commit(id, 0, 0).await.is_ok() {
            answered.push(id);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    answered
}

async fn expect_all(store: &Fixture, files: &[ObjectId]) {
    for file in files {
        assert_eq!(store.content(*file).await, vec![7; BYTES]);
    }
    let report = Store::check(&store.options.directory, false);
    assert!(report.is_err(), "it is open");
}

/// Data reported as stable was written to new directories below the old path, on another disk if the old one was unmounted, and was
/// missing when the directory was moved back.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_answered_while_the_directory_is_moved_away_lies_in_it() {
    let mut store = Fixture::new();
    let before = store.file(ObjectId::ROOT, "before").await;
    store.write(before, 0, &[7; BYTES]).await.unwrap();
    store.store().commit(before, 0, 0).await.unwrap();
    let directory = store.options.directory.clone();
    fs::rename(&directory, away(&store)).unwrap();
    let mut answered = write_until_it_ends(&store).await;
    assert!(!directory.exists(), "nothing is made where nobody looks");
    answered.push(before);
    store.close();
    fs::rename(away(&store), &directory).unwrap();
    store.reopen_unsynced();
    expect_all(&store, &answered).await;
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// The store continued in the directory that had been moved away, and its copy was served after the next start.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_ends_when_a_copy_is_in_the_place_of_its_directory() {
    let mut store = Fixture::new();
    let directory = store.options.directory.clone();
    let copied = directory.with_extension("copy");
    copy(&directory, &copied);
    fs::rename(&directory, away(&store)).unwrap();
    fs::rename(&copied, &directory).unwrap();
    let answered = write_until_it_ends(&store).await;
    store.close();
    fs::remove_dir_all(&directory).unwrap();
    fs::rename(away(&store), &directory).unwrap();
    store.reopen_unsynced();
    expect_all(&store, &answered).await;
}

/// The file by which a store is claimed was removed, and another process could open the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_ends_when_another_process_has_claimed_it() {
    let store = Fixture::new();
    let lock = store.options.directory.join("lock");
    fs::remove_file(&lock).unwrap();
    fs::write(&lock, b"").unwrap();
    write_until_it_ends(&store).await;
}
