//! The power fails right after the data of removed files was cleared away: the disk then has either the data and its row
//! in the table of removals, or neither.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use store::{NewStore, Store, StoreOptions};
use vfs::{AccessCheck, FileSystem, ObjectId, SetAttributes, Stability, XattrMode, XattrName};

use crate::fixture::disk::SmallDisk;
use crate::fixture::{file, name, root, with_mode};
use crate::recorder::Recorder;
use crate::{MEBIBYTES, mount_copy};

/// The files that are removed at the same time and cleared away together.
const FILES: u64 = 2;
/// More than the limit for kept writes.
const BYTES: usize = 100_000;
/// Small stable changes during the clearing.
const CHANGES: u32 = 8;

/// The number of data files.
fn data_files(place: &Path) -> usize {
    let entries = std::fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.file_type().unwrap().is_dir() {
            true => data_files(&entry.path()),
            false => 1,
        })
        .sum()
}

async fn make(store: &Store, text: &str) -> ObjectId {
    let (who, set) = (root(), SetAttributes::default());
    let text = name(text);
    let made = store.create(&who, ObjectId::ROOT, &text, file(), &set);
    let id = made.await.unwrap().attributes.id;
    let access = AccessCheck::Credentials(&who);
    let data = Bytes::from(vec![3; BYTES]);
    let written = store.write(access, id, 0, data, Stability::File);
    written.await.unwrap();
    id
}

/// Changes rows until their journal is one that was created in advance: it has its full length from the beginning, so that
/// appends become stable without any other metadata of the file system.
async fn fill_first_journal(store: &Store, id: ObjectId, journals: &Path) {
    let (who, tag) = (root(), XattrName::new(b"user.large".to_vec()).unwrap());
    let value = Bytes::from(vec![5; 60_000]);
    while !journals.join("1.jnl").exists() {
        let set = store.set_xattr(&who, id, &tag, value.clone(), XattrMode::Any);
        set.await.unwrap();
    }
}

/// Repeated power losses of a disk of some kind.
pub async fn cut_power(outer: &Path, maker: &[&str], losses: u64) {
    let Some(recorder) = Recorder::begin(outer, MEBIBYTES << 20) else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::made_of(place, recorder.path(), MEBIBYTES, maker) else {
        return;
    };
    let options = StoreOptions::new(disk.path().join("store"));
    let store = Store::create(&options, &NewStore::default()).unwrap();
    store.end_reclaim().await.unwrap();
    let stays = make(&store, "stays").await;
    let who = root();
    fill_first_journal(&store, stays, &options.directory.join("meta")).await;
    for loss in 0..losses {
        for number in 0..FILES {
            make(&store, &format!("f{number}")).await;
        }
        for number in 0..FILES {
            let text = name(&format!("f{number}"));
            store.remove(&who, ObjectId::ROOT, &text).await.unwrap();
        }
        let copies = tempfile::tempdir_in(outer).unwrap();
        recorder.copy_at_flushes(Some(copies.path()));
        while data_files(&options.directory.join("data")) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for change in 0..CHANGES {
            let access = AccessCheck::Credentials(&who);
            let set = with_mode(0o600 + change);
            store.set_attributes(access, stays, &set).await.unwrap();
        }
        recorder.copy_at_flushes(None);
        let entries = std::fs::read_dir(copies.path()).unwrap();
        for copy in entries.map(|entry| entry.unwrap().path()) {
            let disk = mount_copy(&copy, maker);
            let options = StoreOptions::new(disk.path().join("store"));
            let report = Store::check(&options.directory, false).unwrap();
            let copy = copy.file_name().unwrap().display();
            assert!(report.sound, "loss {loss}, {copy}: {report}");
        }
    }
    println!(
        "{}: {losses} times removed files were cleared away and the power lost",
        maker[0]
    );
}
