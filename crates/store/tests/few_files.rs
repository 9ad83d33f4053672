//! A disk whose file system was made for few files: clients use them up long before the bytes.
//!
//! Needs loop devices and the superuser; otherwise these tests report that and prove nothing.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use crate::fixture::disk::SmallDisk;
use crate::fixture::{file, name, root};
use store::{NewStore, Store, StoreOptions};
use vfs::{
    AccessCheck, Error, FileSystem, ObjectId, Result, SetAttributes, Stability, XattrMode,
    XattrName,
};

const MEBIBYTES: u64 = 1024;
const MAKER: [&str; 4] = ["mkfs.ext4", "-q", "-N", "1200"];
const PAUSE: Duration = Duration::from_millis(50);

fn store_on(disk: &SmallDisk) -> (Store, StoreOptions) {
    let options = StoreOptions::new(disk.path().join("store"));
    (
        Store::create(&options, &NewStore::default()).unwrap(),
        options,
    )
}

/// Creates a file with content.
async fn make(store: &Store, text: &str, stability: Stability) -> Result<ObjectId> {
    let (who, name, set) = (root(), name(text), SetAttributes::default());
    let made = store.create(&who, ObjectId::ROOT, &name, file(), &set);
    let id = made.await?.attributes.id;
    let data = vec![7; 100].into();
    let access = AccessCheck::Credentials(&who);
    store.write(access, id, 0, data, stability).await?;
    Ok(id)
}

/// Creates files with content up to the limit.
async fn make_all(store: &Store) -> Vec<ObjectId> {
    let mut made = Vec::new();
    loop {
        let stability = match made.len() % 2 {
            0 => Stability::Unstable,
            _ => Stability::File,
        };
        match make(store, &format!("file {}", made.len()), stability).await {
            Ok(id) => made.push(id),
            Err(error) => {
                assert_eq!(error, Error::NoSpace);
                return made;
            }
        }
        assert!(made.len() < 2000, "there is no end");
    }
}

/// Gives each file a long attribute; these fill buffers of rows, tables and journals.
async fn attribute(store: &Store, files: &[ObjectId], round: u8) -> Result<()> {
    let (who, name) = (root(), XattrName::new(b"user".to_vec()).unwrap());
    for file in files {
        let value = vec![round; 60 << 10].into();
        let set = store.set_xattr(&who, *file, &name, value, XattrMode::Any);
        set.await?;
    }
    Ok(())
}

/// Clients had used up the files of the disk with small ones. The embedded store could not create its next table or journal and ended
/// ("Poisoned"), and the server with it.
#[tokio::test(flavor = "multi_thread")]
async fn clients_who_use_up_the_files_of_a_disk_can_change_and_remove_what_they_have() {
    let Some(disk) = SmallDisk::made(MEBIBYTES, &MAKER) else {
        return;
    };
    let (store, options) = store_on(&disk);
    store.end_reclaim().await.unwrap();
    let files = make_all(&store).await;
    assert!(files.len() > 800, "{}", files.len());
    for round in 0..20 {
        attribute(&store, &files[..100], round).await.unwrap();
    }
    let (who, data) = (root(), bytes::Bytes::from(vec![8; 5000]));
    for id in &files {
        let access = AccessCheck::Credentials(&who);
        let written = store.write(access, *id, 50, data.clone(), Stability::File);
        written.await.unwrap();
    }
    // A new file has no data yet, so it needs no file of the disk.
    assert_eq!(
        make(&store, "one more", Stability::File).await,
        Err(Error::NoSpace)
    );
    let found = store.lookup(&who, ObjectId::ROOT, &name("one more")).await;
    let empty = found.unwrap();
    let access = AccessCheck::Credentials(&who);
    let extent = vfs::Extent {
        offset: 0,
        length: 10,
    };
    assert_eq!(
        store.allocate(access, empty.id, extent).await,
        Err(Error::NoSpace)
    );
    for number in 0..100 {
        let text = name(&format!("file {number}"));
        let removed = store.remove(&who, ObjectId::ROOT, &text);
        removed.await.unwrap();
    }
    for number in 0.. {
        let later = make(&store, &format!("later {number}"), Stability::File).await;
        if later.is_ok() {
            break;
        }
        assert!(!store.statistics().failed);
        tokio::time::sleep(PAUSE).await;
    }
    drop(store);
    assert!(Store::check(&options.directory, false).unwrap().sound);
}

/// Uses up the remaining files.
fn use_up(disk: &SmallDisk) -> PathBuf {
    let beside = disk.path().join("beside");
    fs::create_dir(&beside).unwrap();
    (0..).find(|number| File::create(beside.join(number.to_string())).is_err());
    beside
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_to_which_others_leave_no_file_waits_and_goes_on() {
    let Some(disk) = SmallDisk::made(MEBIBYTES, &MAKER) else {
        return;
    };
    let (store, _) = store_on(&disk);
    store.end_reclaim().await.unwrap();
    let mut files = Vec::new();
    for number in 0..100 {
        let text = format!("file {number}");
        files.push(make(&store, &text, Stability::File).await.unwrap());
    }
    let beside = use_up(&disk);
    let mut rounds = 0..40;
    let stuck = loop {
        let round = rounds.next().expect("changes gather without bound");
        if let Err(error) = attribute(&store, &files, round).await {
            break error;
        }
    };
    assert_eq!(stuck, Error::Delay);
    let who = root();
    let access = AccessCheck::Credentials(&who);
    let read = store.read(access, files[0], 0, 10).await.unwrap();
    assert_eq!(read.bytes, vec![7; 10]);
    fs::remove_dir_all(beside).unwrap();
    while let Err(error) = attribute(&store, &files, 0).await {
        assert_eq!(error, Error::Delay);
        tokio::time::sleep(PAUSE).await;
    }
    assert!(!store.statistics().failed);
}
