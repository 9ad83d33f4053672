//! Stores that are damaged on purpose: each kind of damage is found and repaired, and is gone afterwards.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::{CWD, Mode, mkfifoat};
use vfs::{
    AccessCheck, Cookie, Creation, Credentials, FileSystem, Name, NewObject, ObjectId, ObjectKind,
    SetAttributes, Stability, XattrMode, XattrName,
};

use super::Report;
use crate::metadata::{Batch, Table};
use crate::mutation::{OBJECTS_KEY, RESERVED_KEY, STORED_MARK};
use crate::open_store::OpenStore;
use crate::options::{NewStore, StoreOptions};
use crate::rows::{EntryRow, NameHash, ObjectRow, key};
use crate::store::Store;

/// A store with a file in a directory, a link to it, and an attribute.
struct Damaged {
    directory: tempfile::TempDir,
    home: ObjectId,
    sub: ObjectId,
    file: ObjectId,
    who: Credentials,
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes().to_vec()).unwrap()
}

impl Damaged {
    /// Creates the store, and damages it once everything is stable.
    async fn by(damage: impl FnOnce(&Damaged, &OpenStore, &mut Batch<'_>)) -> Damaged {
        let directory = tempfile::tempdir().unwrap();
        let options = StoreOptions::new(directory.path().join("store"));
        let store = Store::create(&options, &NewStore::default()).unwrap();
        store.end_reclaim().await.unwrap();
        let who = Credentials::root();
        let set = SetAttributes::default();
        let make = async |parent, text, new| {
            store
                .create(&who, parent, &name(text), new, &set)
                .await
                .unwrap()
                .attributes
                .id
        };
        let folder = || NewObject::Plain(ObjectKind::Directory);
        let home = make(ObjectId::ROOT, "home", folder()).await;
        let sub = make(home, "sub", folder()).await;
        let file = make(home, "file", NewObject::File(Creation::Guarded)).await;
        let data = Bytes::from_static(b"precious");
        store
            .write(AccessCheck::Open(&who), file, 0, data, Stability::File)
            .await
            .unwrap();
        store
            .link(&who, file, ObjectId::ROOT, &name("link"))
            .await
            .unwrap();
        let xattr = XattrName::new(&b"colour"[..]).unwrap();
        let value = Bytes::from_static(b"red");
        store
            .set_xattr(&who, file, &xattr, value, XattrMode::Any)
            .await
            .unwrap();
        store.sync().await.unwrap();
        let damaged = Damaged {
            directory,
            home,
            sub,
            file,
            who,
        };
        let mut batch = store.metadata.batch();
        damage(&damaged, &store, &mut batch);
        batch.commit().unwrap();
        damaged
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn check(&self, repair: bool) -> Report {
        Store::check(&self.path(), repair).unwrap()
    }

    /// The damage is reported with these words, repaired, and then gone.
    fn repaired(&self, words: &str) -> Store {
        let before = self.check(false);
        assert!(!before.sound, "{before}");
        assert!(before.to_string().contains(words), "{before}");
        assert!(before.findings.iter().all(|finding| !finding.repaired));
        let repair = self.check(true);
        assert!(
            repair.sound && repair.to_string().contains(words),
            "{repair}"
        );
        let after = self.check(false);
        assert!(after.sound && after.findings.is_empty(), "{after}");
        let store = Store::open(&StoreOptions::new(self.path())).unwrap();
        assert_eq!(store.statistics().objects, after.objects);
        store
    }

    async fn content(&self, store: &Store, id: ObjectId) -> Bytes {
        store
            .read(AccessCheck::Open(&self.who), id, 0, 100)
            .await
            .unwrap()
            .bytes
    }

    async fn names(&self, store: &Store, directory: ObjectId) -> Vec<String> {
        let page = store
            .read_directory(&self.who, directory, Cookie::START, 100)
            .await
            .unwrap();
        let mut names: Vec<String> = page
            .entries
            .iter()
            .map(|entry| entry.name.to_string())
            .collect();
        names.sort();
        names
    }
}

/// An object's row with one thing changed.
fn change_row(
    store: &OpenStore,
    batch: &mut Batch<'_>,
    id: ObjectId,
    change: impl FnOnce(&mut ObjectRow),
) {
    let mut row = store.object(id).unwrap();
    change(&mut row);
    batch.put(Table::Objects, &key::object(id), &row.encode());
}

fn entry_key(store: &OpenStore, directory: ObjectId, text: &str) -> (NameHash, [u8; 15]) {
    let hash = store.hash(text.as_bytes());
    (hash, key::entry(directory, hash))
}

#[tokio::test]
async fn an_undamaged_store_is_sound() {
    let store = Damaged::by(|_, _, _| {}).await;
    let report = store.check(false);
    assert!(report.sound && report.findings.is_empty(), "{report}");
    assert_eq!((report.objects, report.names, report.data_files), (4, 4, 1));
}

#[tokio::test]
async fn a_name_that_leads_nowhere_is_taken_away() {
    let damaged = Damaged::by(|damaged, _, batch| {
        batch.remove(Table::Objects, &key::object(damaged.sub));
    })
    .await;
    let store = damaged.repaired("leads nowhere");
    assert_eq!(damaged.names(&store, damaged.home).await, ["file"]);
}

#[tokio::test]
async fn a_file_without_a_row_leaves_its_data() {
    let damaged = Damaged::by(|damaged, _, batch| {
        batch.put(Table::Objects, &key::object(damaged.file), b"\x01garbage");
    })
    .await;
    let store = damaged.repaired("cannot be read");
    assert!(damaged.names(&store, damaged.home).await == ["sub"]);
    let lost = damaged.path().join("lost-data");
    let data = lost.join(format!("{:016x}", damaged.file.as_u64()));
    assert_eq!(fs::read(data).unwrap(), b"precious");
    let row = lost.join(format!("row-1-{:016x}", damaged.file.as_u64()));
    assert_eq!(fs::read(row).unwrap(), b"\x01garbage");
}

#[tokio::test]
async fn an_object_without_a_name_goes_to_lost_and_found() {
    let damaged = Damaged::by(|damaged, store, batch| {
        let (hash, key) = entry_key(store, damaged.home, "sub");
        batch.remove(Table::Entries, &key);
        batch.remove(
            Table::Links,
            &key::link(damaged.sub, damaged.home, hash.cookie(0)),
        );
    })
    .await;
    let store = damaged.repaired("has no name");
    let found = store
        .lookup(&damaged.who, ObjectId::ROOT, &name("lost+found"))
        .await
        .unwrap();
    let expected = format!("#{:016x}", damaged.sub.as_u64());
    assert_eq!(damaged.names(&store, found.id).await, [expected]);
    assert_eq!(
        store.parent(&damaged.who, damaged.sub).await.unwrap().id,
        found.id
    );
}

#[tokio::test]
async fn a_file_called_lost_and_found_is_left_alone() {
    let damaged = Damaged::by(|damaged, store, batch| {
        let (hash, entry) = entry_key(store, ObjectId::ROOT, "link");
        batch.remove(Table::Entries, &entry);
        let link = key::link(damaged.file, ObjectId::ROOT, hash.cookie(0));
        batch.remove(Table::Links, &link);
        let (hash, entry) = entry_key(store, ObjectId::ROOT, "lost+found");
        let mut row = EntryRow::default();
        row.add(name("lost+found"), damaged.file).unwrap();
        batch.put(Table::Entries, &entry, &row.encode());
        let link = key::link(damaged.file, ObjectId::ROOT, hash.cookie(0));
        batch.put(Table::Links, &link, b"");
        batch.remove(Table::Objects, &key::object(damaged.home));
    })
    .await;
    let store = damaged.repaired("leads nowhere");
    assert_eq!(
        damaged.names(&store, ObjectId::ROOT).await,
        ["lost+found", "lost+found.1"]
    );
}

#[tokio::test]
async fn a_lost_directory_takes_its_content_along() {
    let damaged = Damaged::by(|damaged, _, batch| {
        batch.put(Table::Objects, &key::object(damaged.home), b"");
    })
    .await;
    let store = damaged.repaired("leads nowhere");
    // The file has another name; the subdirectory has none left.
    let link = store
        .lookup(&damaged.who, ObjectId::ROOT, &name("link"))
        .await
        .unwrap();
    assert_eq!((link.id, link.links), (damaged.file, 1));
    assert_eq!(damaged.content(&store, damaged.file).await, "precious");
    assert_eq!(
        damaged.names(&store, ObjectId::ROOT).await,
        ["link", "lost+found"]
    );
}

#[tokio::test]
async fn wrong_counts_are_counted_again() {
    let damaged = Damaged::by(|damaged, store, batch| {
        change_row(store, batch, damaged.file, |row| row.links = 9);
        change_row(store, batch, damaged.home, |row| {
            row.directory_mut().unwrap().entries = 0
        });
        batch.put(Table::System, OBJECTS_KEY, &key::number(77));
    })
    .await;
    let report = damaged.check(false).to_string();
    for words in [
        "counts 9 names and has 2",
        "counts 0 entries",
        "counts 77 objects, and there are",
    ] {
        assert!(report.contains(words), "{report}");
    }
    let store = damaged.repaired("counts 9 names");
    assert_eq!(store.attributes(damaged.file).await.unwrap().links, 2);
    assert!(
        store
            .remove(&damaged.who, ObjectId::ROOT, &name("home"))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn directories_in_a_circle_are_cut_free() {
    let damaged = Damaged::by(|damaged, store, batch| {
        // `home` moves below its own subdirectory.
        let (hash, root_key) = entry_key(store, ObjectId::ROOT, "home");
        batch.remove(Table::Entries, &root_key);
        batch.remove(
            Table::Links,
            &key::link(damaged.home, ObjectId::ROOT, hash.cookie(0)),
        );
        let mut row = EntryRow::default();
        row.add(name("home"), damaged.home).unwrap();
        batch.put(
            Table::Entries,
            &key::entry(damaged.sub, hash),
            &row.encode(),
        );
        batch.put(
            Table::Links,
            &key::link(damaged.home, damaged.sub, hash.cookie(0)),
            b"",
        );
        change_row(store, batch, damaged.home, |row| {
            row.directory_mut().unwrap().parent = damaged.sub;
        });
        change_row(store, batch, damaged.sub, |row| {
            let content = row.directory_mut().unwrap();
            content.entries = 1;
            content.subdirectories = 1;
        });
        change_row(store, batch, ObjectId::ROOT, |row| {
            let content = row.directory_mut().unwrap();
            content.entries = 1;
            content.subdirectories = 0;
        });
    })
    .await;
    let store = damaged.repaired("contain each other");
    let found = store
        .lookup(&damaged.who, ObjectId::ROOT, &name("lost+found"))
        .await
        .unwrap();
    assert_eq!(damaged.names(&store, found.id).await.len(), 1);
    assert_eq!(damaged.content(&store, damaged.file).await, "precious");
}

#[tokio::test]
async fn links_and_entries_that_do_not_know_each_other_are_put_right() {
    let damaged = Damaged::by(|damaged, store, batch| {
        let (hash, _) = entry_key(store, damaged.home, "file");
        batch.remove(
            Table::Links,
            &key::link(damaged.file, damaged.home, hash.cookie(0)),
        );
        batch.put(
            Table::Links,
            &key::link(damaged.file, damaged.sub, hash.cookie(0)),
            b"",
        );
    })
    .await;
    let report = damaged.check(false).to_string();
    assert!(report.contains("does not know its name file"), "{report}");
    let store = damaged.repaired("remembers a name that it does not have");
    assert_eq!(store.attributes(damaged.file).await.unwrap().links, 2);
}

#[tokio::test]
async fn a_directory_keeps_one_of_two_names() {
    let damaged = Damaged::by(|damaged, store, batch| {
        let (hash, entry) = entry_key(store, ObjectId::ROOT, "second");
        let mut row = EntryRow::default();
        row.add(name("second"), damaged.sub).unwrap();
        batch.put(Table::Entries, &entry, &row.encode());
        batch.put(
            Table::Links,
            &key::link(damaged.sub, ObjectId::ROOT, hash.cookie(0)),
            b"",
        );
    })
    .await;
    let store = damaged.repaired("a directory with a second name");
    let parent = store.parent(&damaged.who, damaged.sub).await.unwrap().id;
    assert!(
        damaged
            .names(&store, parent)
            .await
            .iter()
            .any(|name| name == "sub" || name == "second")
    );
}

#[tokio::test]
async fn a_name_under_the_wrong_hash_gives_its_object_to_lost_and_found() {
    let damaged = Damaged::by(|damaged, store, batch| {
        let (_, right) = entry_key(store, damaged.home, "sub");
        let (_, wrong) = entry_key(store, damaged.home, "other");
        let row = store.metadata.row(Table::Entries, &right).unwrap().unwrap();
        batch.put(Table::Entries, &wrong, &row);
        batch.remove(Table::Entries, &right);
    })
    .await;
    let store = damaged.repaired("lies where it is not looked for");
    assert_eq!(damaged.names(&store, damaged.home).await, ["file"]);
    assert!(store.attributes(damaged.sub).await.is_ok());
}

#[tokio::test]
async fn data_without_an_object_is_kept_aside() {
    let damaged = Damaged::by(|_, _, _| {}).await;
    let stray = damaged.path().join("data/00/00/0000000000000bad");
    fs::write(&stray, "stray").unwrap();
    fs::write(damaged.path().join("data/readme"), "who am I").unwrap();
    let report = damaged.check(false).to_string();
    assert!(report.contains("is no part of the store"), "{report}");
    drop(damaged.repaired("is no data file of the store"));
    assert!(!stray.exists());
    let lost = damaged.path().join("lost-data");
    assert_eq!(fs::read(lost.join("0000000000000bad")).unwrap(), b"stray");
    assert_eq!(fs::read(lost.join("readme")).unwrap(), b"who am I");
}

#[tokio::test]
async fn data_that_does_not_fit_its_row_is_put_right() {
    let damaged = Damaged::by(|damaged, store, batch| {
        change_row(store, batch, damaged.file, |row| {
            row.size = 3;
            row.file_mut().unwrap().stored = false;
        });
    })
    .await;
    let report = damaged.check(false).to_string();
    assert!(report.contains("goes on behind its 3 bytes"), "{report}");
    let store = damaged.repaired("does not know that it has data");
    assert_eq!(damaged.content(&store, damaged.file).await, "pre");
}

#[tokio::test]
async fn lost_data_is_told() {
    let damaged = Damaged::by(|damaged, store, _| {
        fs::remove_file(store.layout.data_file(damaged.file)).unwrap();
    })
    .await;
    let store = damaged.repaired("is lost; it cannot be read");
    let access = AccessCheck::Credentials(&damaged.who);
    let read = store.read(access, damaged.file, 0, 8).await;
    assert!(matches!(read, Err(vfs::Error::Io(_))), "{read:?}");
}

/// A FIFO or anything else in the place of a file that was being written was not reported, but the store did not open.
#[tokio::test]
async fn what_lies_in_the_place_of_data_is_kept_aside() {
    for is_dirty in [false, true] {
        for make in [
            (|path| mkfifoat(CWD, path, Mode::RWXU).unwrap()) as fn(&Path),
            |path| fs::create_dir(path).unwrap(),
            |path| symlink("/dev/zero", path).unwrap(),
        ] {
            let damaged = Damaged::by(|damaged, store, batch| {
                let path = store.layout.data_file(damaged.file);
                fs::remove_file(&path).unwrap();
                make(&path);
                if is_dirty {
                    batch.put(Table::Dirty, &key::object(damaged.file), STORED_MARK);
                }
            })
            .await;
            let store = damaged.repaired("is no regular file");
            let access = AccessCheck::Credentials(&damaged.who);
            let read = store.read(access, damaged.file, 0, 8).await;
            assert!(matches!(read, Err(vfs::Error::Io(_))), "{read:?}");
            assert!(
                fs::read_dir(damaged.path().join("lost-data"))
                    .unwrap()
                    .count()
                    == 1
            );
        }
    }
}

#[tokio::test]
async fn marks_that_make_no_sense_are_taken_off() {
    let damaged = Damaged::by(|damaged, _, batch| {
        batch.put(Table::Orphans, &key::object(damaged.file), b"");
        batch.put(Table::Removals, &key::object(damaged.home), b"");
        batch.put(Table::Dirty, &key::object(damaged.home), b"");
        let series = [7; vfs::RequestId::SERIES_BYTES];
        batch.put(Table::Requests, &series, b"unreadable");
    })
    .await;
    let report = damaged.check(false).to_string();
    assert!(
        report.contains("What a client's request has done cannot be read"),
        "{report}"
    );
    assert!(
        report.contains("is listed as removed, and is there"),
        "{report}"
    );
    assert!(
        report.contains("is marked as being written, and is no file"),
        "{report}"
    );
    let store = damaged.repaired("is listed as removed but open, and is not");
    assert_eq!(damaged.content(&store, damaged.file).await, "precious");
}

#[tokio::test]
async fn an_attribute_of_nothing_is_kept_aside_and_the_rest_counted_again() {
    let damaged = Damaged::by(|damaged, store, batch| {
        let hash = store.hash(b"colour");
        batch.put(
            Table::Xattrs,
            &key::xattr(ObjectId::from_u64(9), hash, 0),
            b"\x01\x01x",
        );
        batch.remove(Table::Xattrs, &key::xattr(damaged.file, hash, 0));
    })
    .await;
    let report = damaged.check(false).to_string();
    assert!(
        report.contains("counts its extended attributes wrongly"),
        "{report}"
    );
    drop(damaged.repaired("An extended attribute of object 0.9 makes no sense"));
}

#[tokio::test]
async fn numbers_in_use_are_not_given_out_again() {
    let damaged = Damaged::by(|_, _, batch| {
        let low = crate::counters::Reserved::behind(16, 2, 1);
        batch.put(Table::System, RESERVED_KEY, &low.encode());
    })
    .await;
    let store = damaged.repaired("Numbers are in use that are not reserved");
    let set = SetAttributes::default();
    let new = NewObject::File(Creation::Guarded);
    let made = store
        .create(&damaged.who, ObjectId::ROOT, &name("new"), new, &set)
        .await
        .unwrap();
    assert!(made.attributes.id > damaged.file);
    assert!(made.attributes.change > store.attributes(damaged.file).await.unwrap().change);
}

#[tokio::test]
async fn a_store_without_foundations_gets_new_ones() {
    let damaged = Damaged::by(|_, _, batch| {
        batch.remove(Table::System, RESERVED_KEY);
        batch.remove(Table::Objects, &key::object(ObjectId::ROOT));
    })
    .await;
    assert!(Store::open(&StoreOptions::new(damaged.path())).is_err());
    assert!(Store::check(&damaged.path(), false).is_err());
    let repair = damaged.check(true);
    assert!(
        repair.sound && repair.findings.iter().all(|finding| finding.repaired),
        "{repair}"
    );
    let store = Store::open(&StoreOptions::new(damaged.path())).unwrap();
    // The names in the root still exist, because they have their own rows.
    assert_eq!(
        damaged.names(&store, ObjectId::ROOT).await,
        ["home", "link"]
    );
    assert_eq!(damaged.content(&store, damaged.file).await, "precious");
}
