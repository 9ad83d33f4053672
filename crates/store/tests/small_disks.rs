//! Real small disks that clients fill with many writers at once: removal works to the end, and the store always opens.
//!
//! Needs loop devices and the superuser; for anybody else these tests say so and prove nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use fixture::{file, name, root, with_size};
use store::{NewStore, Store, StoreOptions};
use vfs::{Authority, Error, FileSystem, ObjectId, Result, SetAttributes, Stability};

const ROOT: ObjectId = ObjectId::ROOT;

/// A file system on a loop device, gone with the test.
struct SmallDisk {
    place: tempfile::TempDir,
    mounted: bool,
}

impl SmallDisk {
    /// Made by a program with these arguments; `None` where that cannot be had.
    fn made(mebibytes: u64, maker: &[&str]) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let image = place.path().join("image");
        File::create(&image)
            .unwrap()
            .set_len(mebibytes << 20)
            .unwrap();
        let mut disk = SmallDisk {
            place,
            mounted: false,
        };
        fs::create_dir(disk.path()).unwrap();
        let made = Command::new(maker[0])
            .args(&maker[1..])
            .arg(&image)
            .output();
        let made = made.is_ok_and(|made| made.status.success());
        disk.mounted = made && {
            let mut mount = Command::new("mount");
            mount.args(["-o", "loop"]).arg(&image).arg(disk.path());
            mount.status().is_ok_and(|status| status.success())
        };
        if !disk.mounted {
            eprintln!("NOT TESTED: `{}` and a loop device are needed", maker[0]);
            return None;
        }
        Some(disk)
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("disk")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if !self.mounted {
            return;
        }
        let status = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "it stays mounted"
        );
    }
}

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
                    let authority = Authority::Credentials(&who);
                    let offset = block << 20;
                    let written =
                        store.write(authority, id, offset, data.clone(), Stability::Unstable);
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
async fn fill_and_empty(disk: &SmallDisk, writers: u32) {
    let options = StoreOptions::new(disk.path().join(format!("store{writers}")));
    let store = Arc::new(Store::create(&options, &NewStore::default()).unwrap());
    store.end_reclaim().await.unwrap();
    let mut names = fill(&store, writers).await;
    assert!(names.len() > 10, "{names:?}");
    store.sync().await.unwrap();
    assert!(!store.statistics().failed);
    drop(store);

    let store = Store::open(&options).unwrap();
    store.end_reclaim().await.unwrap();
    let who = root();
    let cut = names.split_off(names.len() / 2);
    for text in &cut {
        let found = store.lookup(&who, ROOT, &name(text)).await.unwrap();
        let authority = Authority::Credentials(&who);
        store
            .set_attributes(authority, found.id, &with_size(0))
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
    for maker in [
        &["mkfs.ext4", "-q", "-m", "5"][..],
        &["mkfs.ext4", "-q", "-m", "0"],
    ] {
        let Some(disk) = SmallDisk::made(200, maker) else {
            return;
        };
        for writers in [1, 64] {
            fill_and_empty(&disk, writers).await;
        }
    }
    if let Some(disk) = SmallDisk::made(320, &["mkfs.xfs", "-q"]) {
        fill_and_empty(&disk, 64).await;
    }
}

/// What somebody else takes cannot be kept back, but for the ballast.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_others_fill_the_disk_reading_and_removal_go_on() {
    let Some(disk) = SmallDisk::made(200, &["mkfs.ext4", "-q", "-m", "0"]) else {
        return;
    };
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
