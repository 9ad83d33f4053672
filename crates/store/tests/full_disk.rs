//! A disk that fills up: what is refused, what still works, and what remains without a reserve.
//!
//! Needs its own small file system, which only the superuser can mount; otherwise these
//! tests report that and prove nothing.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::fixture::{directory, file, name, root, with_size};
use bytes::Bytes;
use store::{CommitMode, NewStore, Reserve, Store, StoreOptions, recovered};
use vfs::{
    AccessCheck, Creation, Error, FileSystem, Name, NewObject, ObjectId, Result, SetAttributes,
    Stability,
};

const ROOT: ObjectId = ObjectId::ROOT;
const MEBIBYTE: u64 = 1 << 20;

/// A file system in memory, removed with the test.
struct SmallDisk {
    path: tempfile::TempDir,
}

impl SmallDisk {
    fn mounted(mebibytes: u64) -> Option<SmallDisk> {
        let path = tempfile::tempdir().unwrap();
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(path.path())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(SmallDisk { path });
        }
        eprintln!("NOT TESTED: only the superuser can mount the small disk that this test needs");
        None
    }

    fn path(&self) -> &Path {
        self.path.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "the small disk stays mounted"
        );
    }
}

fn options(disk: &SmallDisk, reserve: u64) -> StoreOptions {
    let mut options = StoreOptions::new(disk.path().join("store"));
    options.reserve = Reserve::Bytes(reserve);
    options
}

async fn make(store: &Store, text: &str, new: NewObject) -> Result<ObjectId> {
    let set = SetAttributes::default();
    Ok(store
        .create(&root(), ROOT, &name(text), new, &set)
        .await?
        .attributes
        .id)
}

async fn write(store: &Store, id: ObjectId, offset: u64, data: Bytes) -> Result<()> {
    let who = root();
    let access = AccessCheck::Credentials(&who);
    store
        .write(access, id, offset, data, Stability::Unstable)
        .await
        .map(|_| ())
}

/// Writes mebibytes until one is refused, and returns how many fitted.
async fn fill(store: &Store, id: ObjectId) -> (u64, Error) {
    let data = Bytes::from(vec![7; MEBIBYTE as usize]);
    for count in 0.. {
        if let Err(error) = write(store, id, count * MEBIBYTE, data.clone()).await {
            return (count, error);
        }
    }
    unreachable!("the disk never fills up")
}

#[tokio::test]
async fn a_full_disk_refuses_data_and_lets_things_be_removed() {
    let Some(disk) = SmallDisk::mounted(96) else {
        return;
    };
    let store = Store::create(&options(&disk, 24 * MEBIBYTE), &NewStore::default()).unwrap();
    store.end_reclaim().await.unwrap();
    let kept = make(&store, "kept", file()).await.unwrap();
    write(&store, kept, 0, Bytes::from_static(b"kept"))
        .await
        .unwrap();
    let large = make(&store, "large", file()).await.unwrap();
    let (count, error) = fill(&store, large).await;
    assert!(
        count > 16 && error == Error::NoSpace,
        "{error} after {count} MiB"
    );
    // The last mebibyte still has space for some small files.
    let mut smalls = 0;
    while let Ok(small) = make(&store, &format!("small{smalls}"), file()).await {
        let page = Bytes::from(vec![9; 4096]);
        if write(&store, small, 0, page).await.is_err() {
            break;
        }
        smalls += 1;
        assert!(smalls < 1000, "nothing is ever refused");
    }
    while make(&store, &format!("directory{smalls}"), directory())
        .await
        .is_ok()
    {
        smalls += 1;
        assert!(smalls < 1000, "nothing is ever refused");
    }
    assert_eq!(make(&store, "new", directory()).await, Err(Error::NoSpace));
    assert!(store.space().await.unwrap().available_bytes < MEBIBYTE);
    // Existing files can be opened, read, renamed and cut.
    make(&store, "kept", NewObject::File(Creation::Unchecked))
        .await
        .unwrap();
    let who = root();
    let access = AccessCheck::Credentials(&who);
    assert_eq!(store.read(access, kept, 0, 10).await.unwrap().bytes, "kept");
    store
        .rename(&who, (ROOT, &name("kept")), (ROOT, &name("moved")))
        .await
        .unwrap();
    store
        .set_attributes(access, kept, &with_size(2))
        .await
        .unwrap();
    assert!(!store.statistics().failed);
    store.remove(&who, ROOT, &name("large")).await.unwrap();
    until_writable(&store, kept).await;
    drop(store);
    let report = Store::check(&disk.path().join("store"), false).unwrap();
    assert!(report.sound, "{report}");
}

/// Waits until data can be written: removed data is cleared away later, without a guaranteed time.
async fn until_writable(store: &Store, id: ObjectId) {
    let start = Instant::now();
    let data = Bytes::from(vec![8; 4 * MEBIBYTE as usize]);
    while let Err(error) = write(store, id, 0, data.clone()).await {
        assert_eq!(error, Error::NoSpace);
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "no space although files were removed"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_aside_is_refused_and_leaves_nothing() {
    let Some(disk) = SmallDisk::mounted(64) else {
        return;
    };
    let store = Store::create(&options(&disk, 8 * MEBIBYTE), &NewStore::default()).unwrap();
    let small = make(&store, "small", file()).await.unwrap();
    write(&store, small, 0, Bytes::from_static(b"small"))
        .await
        .unwrap();
    let large = make(&store, "large", file()).await.unwrap();
    let (count, _) = fill(&store, large).await;
    assert!(count > 16, "{count} MiB");
    let sets = disk.path().join("store/recovered");
    let refused = store.save_aside("all", "no space", &[small, large]).await;
    assert_eq!(refused.unwrap_err(), Error::NoSpace);
    assert_eq!(std::fs::read_dir(&sets).unwrap().count(), 0);
    // Nothing was lost, and everything that fits is kept.
    assert!(!store.statistics().failed);
    store
        .set_attributes(
            AccessCheck::Credentials(&root()),
            large,
            &with_size(MEBIBYTE),
        )
        .await
        .unwrap();
    let kept = store
        .save_aside("all", "space", &[small, large])
        .await
        .unwrap();
    assert_eq!(kept.bytes, MEBIBYTE + 5);
    let directory = disk.path().join("store");
    let entries = recovered::entries(&directory, "all").unwrap();
    let entry = entries.flatten().find(|entry| entry.object == large);
    let data = recovered::content(&directory, "all", &entry.unwrap()).unwrap();
    assert_eq!(
        std::fs::read(data.unwrap()).unwrap(),
        vec![7; MEBIBYTE as usize]
    );
}

/// Fills the disk with a file outside the store, to the last byte.
fn fill_beside(disk: &SmallDisk) -> PathBuf {
    let path = disk.path().join("beside");
    let mut file = std::fs::File::create(&path).unwrap();
    let block = vec![1; 4096];
    while std::io::Write::write_all(&mut file, &block).is_ok() {}
    path
}

/// The number of data files of a store.
fn data_files(store: &Path) -> usize {
    let below = |path: PathBuf| {
        std::fs::read_dir(path)
            .unwrap()
            .map(|one| one.unwrap().path())
    };
    let directories = below(store.join("data")).flat_map(below);
    directories.flat_map(below).count()
}

/// The data file that a failed write created is removed with its file, even if the mark of this write is gone.
#[tokio::test]
async fn what_a_write_that_failed_has_made_is_removed_with_its_file() {
    let Some(disk) = SmallDisk::mounted(80) else {
        return;
    };
    let options = options(&disk, 0);
    let store = Store::create(&options, &NewStore::default()).unwrap();
    store.end_reclaim().await.unwrap();
    let new_name = write_that_fails_below(&disk, &store, &options.directory).await;
    store.sync().await.unwrap();
    assert_eq!(store.statistics().dirty_files, 0);
    store.remove(&root(), ROOT, &new_name).await.unwrap();
    drop(store);
    let report = Store::check(&options.directory, false).unwrap();
    assert!(report.sound, "{report}");
}

/// Writes to a new file after the disk was filled, so that the data file is created and the write fails. Returns the name.
///
/// The store looks at the free space from time to time. If it has looked after the disk was filled, it creates nothing,
/// and the next attempt begins with another file.
async fn write_that_fails_below(disk: &SmallDisk, store: &Store, directory: &Path) -> Name {
    let beside = fill_beside(disk);
    let filler = std::fs::File::options().write(true).open(&beside).unwrap();
    let full = filler.metadata().unwrap().len();
    for attempt in 0..200 {
        filler.set_len(full - 8 * MEBIBYTE).unwrap();
        let new_name = name(&format!("new{attempt}"));
        let id = make(store, &format!("new{attempt}"), file()).await.unwrap();
        store.sync().await.unwrap();
        // This leaves enough for an empty file in a new directory, and not for what is written to it.
        let more = vec![1; 8 * MEBIBYTE as usize - MEBIBYTE as usize / 4];
        filler.write_all_at(&more, full - 8 * MEBIBYTE).unwrap();
        let data = Bytes::from(vec![7; MEBIBYTE as usize]);
        assert_eq!(write(store, id, 0, data).await, Err(Error::NoSpace));
        let made = data_files(directory);
        if made == 1 {
            std::fs::remove_file(beside).unwrap();
            return new_name;
        }
        assert_eq!(made, 0, "the write has made one data file at most");
    }
    panic!("no write has created a data file and failed");
}

#[tokio::test]
async fn a_store_that_others_leave_no_space_fails_loudly_and_comes_back_whole() {
    let Some(disk) = SmallDisk::mounted(80) else {
        return;
    };
    for mode in [CommitMode::Sync, CommitMode::Async] {
        let mut options = options(&disk, 0);
        options.directory = disk.path().join(format!("{mode:?}"));
        options.commit = mode;
        let store = Store::create(&options, &NewStore::default()).unwrap();
        store.end_reclaim().await.unwrap();
        make(&store, "n0", directory()).await.unwrap();
        let beside = fill_beside(&disk);
        // Without a reserve, operations that need no space permanently are tried, and meet the full disk.
        let mut renamed = 0;
        let error = loop {
            let (old, new) = (
                name(&format!("n{renamed}")),
                name(&format!("n{}", renamed + 1)),
            );
            match store.rename(&root(), (ROOT, &old), (ROOT, &new)).await {
                Ok(_) => renamed += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Io(_)), "{error}");
        // After the failure nothing is guaranteed and nothing is answered.
        assert!(store.statistics().failed);
        assert!(matches!(store.attributes(ROOT).await, Err(Error::Io(_))));
        assert!(matches!(
            make(&store, "x", directory()).await,
            Err(Error::Io(_))
        ));
        assert!(matches!(store.sync().await, Err(Error::Io(_))));
        drop(store);
        std::fs::remove_file(beside).unwrap();
        let report = Store::check(&options.directory, false).unwrap();
        assert!(report.sound, "{report}");
        let store = Store::open(&options).unwrap();
        // The failed rename may have happened, as if only its reply had been lost.
        let mut found = 0;
        for number in [renamed, renamed + 1] {
            found += u32::from(
                store
                    .lookup(&root(), ROOT, &name(&format!("n{number}")))
                    .await
                    .is_ok(),
            );
        }
        assert_eq!(found, 1, "after {renamed} renamings");
        make(&store, "after", directory()).await.unwrap();
    }
}
