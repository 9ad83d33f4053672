//! Saved discarded versions: they are complete, and later changes of the store do not affect them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::fixture::pair::{Pair, apply, update};
use crate::fixture::{Fixture, root, with_mode, with_size};
use bytes::Bytes;
use store::recovered::{self, RecoveredEntry, RecoveredKind, RecoveredName};
use store::{ForeignUpdate, Store};
use vfs::{
    Error, FileSystem, LockKind, LockOwner, Name, NewObject, ObjectId, SetAttributes, XattrMode,
    XattrName,
};

const ROOT: ObjectId = ObjectId::ROOT;

fn all(store: &Path, label: &str) -> BTreeMap<ObjectId, RecoveredEntry> {
    let entries = recovered::entries(store, label)
        .unwrap()
        .map(Result::unwrap);
    entries.map(|entry| (entry.object, entry)).collect()
}

fn text(path: &Option<recovered::EscapedBytes>) -> String {
    path.as_ref().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_is_all_of_it_and_stays_as_it_was() {
    let mut fixture = Fixture::hooked();
    let who = root();
    let folder = fixture.directory(ROOT, "folder").await;
    let odd = Name::new(&b"od\xffd%"[..]).unwrap();
    let set = SetAttributes::default();
    let made = fixture
        .store()
        .create(&who, folder, &odd, crate::fixture::file(), &set);
    let id = made.await.unwrap().attributes.id;
    fixture.write(id, 0, &[1; 10_000]).await.unwrap();
    fixture.write(id, 900_000, b"end").await.unwrap();
    let before = fixture.set(id, &with_mode(0o640)).await.unwrap();
    let xattr = XattrName::new(&b"colour"[..]).unwrap();
    let value = Bytes::from_static(b"\x80red");
    let tagged = fixture
        .store()
        .set_xattr(&who, folder, &xattr, value, XattrMode::Any);
    tagged.await.unwrap();
    let link = fixture
        .make(folder, "link", crate::fixture::symlink("a/b"))
        .await;
    let link = link.unwrap().attributes.id;
    let device = NewObject::Plain(vfs::ObjectKind::BlockDevice { major: 3, minor: 4 });
    let device = fixture
        .make(ROOT, "device", device)
        .await
        .unwrap()
        .attributes
        .id;
    let gone = fixture.file(ROOT, "gone").await;
    fixture.store().end_reclaim().await.unwrap();
    fixture.remove(ROOT, "gone").await.unwrap();
    let content = fixture.content(id).await;
    let objects = [id, folder, link, device, gone];
    let saved = fixture
        .store()
        .save_aside("thaw-1", "thawed by hand", &objects);
    let saved = saved.await.unwrap();
    assert_eq!((saved.objects, saved.bytes), (5, 900_003));
    let again = fixture
        .store()
        .save_aside("thaw-1", "twice", &objects)
        .await;
    assert_eq!(again.unwrap_err(), Error::Exists);
    // Later changes do not affect the saved version.
    fixture.write(id, 0, &[2; 20_000]).await.unwrap();
    fixture.set(id, &with_size(10)).await.unwrap();
    fixture.store().sync().await.unwrap();
    let directory = fixture.options.directory.clone();
    fixture.close();
    let report = Store::check(&directory, true).unwrap();
    assert!(report.sound && report.findings.is_empty(), "{report}");
    assert_eq!(
        recovered::list(&directory).unwrap(),
        std::slice::from_ref(&saved)
    );
    assert_eq!(saved.reason, "thawed by hand");
    let entries = all(&directory, "thaw-1");
    let file = &entries[&id];
    assert_eq!(text(&file.path), "/folder/od%ffd%25");
    assert_eq!(
        (file.kind, file.mode, file.size),
        (RecoveredKind::File, 0o640, 900_003)
    );
    assert_eq!(
        (file.change, file.modified),
        (before.change, before.modified)
    );
    assert!(!file.incomplete);
    assert_eq!(text(&entries[&link].target), "a/b");
    assert_eq!(entries[&device].device, Some((3, 4)));
    assert_eq!(entries[&gone].kind, RecoveredKind::Removed);
    assert_eq!(&entries[&folder].xattrs[0].1.0[..], b"\x80red");
    let content_of = |id| recovered::content(&directory, "thaw-1", &entries[&id]).unwrap();
    let data = content_of(id).unwrap();
    assert_eq!(std::fs::read(data).unwrap(), content);
    let names = content_of(folder);
    let names = std::fs::read_to_string(names.unwrap()).unwrap();
    let mut names: Vec<RecoveredName> = names
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    names.sort_by_key(|name| name.object);
    assert_eq!(names[0].name.0, odd.as_bytes());
    assert_eq!(
        (names[1].name.to_string(), names[1].object),
        ("link".into(), link)
    );
    assert_eq!(content_of(link), None);
    assert!(!entries.contains_key(&ROOT));
    recovered::forget(&directory, "thaw-1").unwrap();
    assert!(recovered::forget(&directory, "thaw-1").is_err());
    assert_eq!(recovered::list(&directory).unwrap(), []);
    assert!(recovered::entries(&directory, "thaw-1").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfinished_set_does_not_count_and_is_made_anew() {
    let mut fixture = Fixture::hooked();
    let directory = fixture.options.directory.clone();
    let left = directory.join("recovered/one.unfinished/data");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("0001000000000010"), "half").unwrap();
    assert_eq!(recovered::list(&directory).unwrap(), []);
    for label in ["", "../one", "one.unfinished", ".hidden"] {
        let refused = fixture.store().save_aside(label, "no", &[ROOT]).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{label}");
        assert!(recovered::forget(&directory, label).is_err());
    }
    fixture
        .store()
        .save_aside("one", "again", &[ROOT])
        .await
        .unwrap();
    assert!(!directory.join("recovered/one.unfinished").exists());
    assert_eq!(text(&all(&directory, "one")[&ROOT].path), "/");
    // Unfinished sets under other labels are removed when the store is opened again.
    let other = directory.join("recovered/other.unfinished");
    std::fs::create_dir_all(other.join("data")).unwrap();
    fixture.reopen().await;
    assert!(!other.exists());
    assert_eq!(recovered::list(&directory).unwrap().len(), 1);
    // Damage is reported, not accepted.
    let manifest = directory.join("recovered/one/manifest.jsonl");
    std::fs::write(manifest, "{\"object\": 3}\n").unwrap();
    assert!(
        recovered::entries(&directory, "one")
            .unwrap()
            .next()
            .unwrap()
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_came_whole_is_said_to_be_a_mixture() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.leader.write(id, 0, b"content").await.unwrap();
    for record in pair.leader.store().updates(0, 10).unwrap() {
        let update = ForeignUpdate {
            incomplete: vec![id],
            ..update(record)
        };
        apply(pair.follower.store(), update, &mut Vec::new())
            .await
            .unwrap();
    }
    pair.follower
        .store()
        .save_aside("one", "lost", &[id])
        .await
        .unwrap();
    let entries = all(&pair.follower.options.directory, "one");
    assert!(entries[&id].incomplete && entries[&id].has_data);
}

#[tokio::test]
async fn what_others_may_not_have_is_known_by_the_records() {
    let fixture = Fixture::hooked();
    let store = fixture.store();
    store.end_reclaim().await.unwrap();
    let (old, moved) = (
        fixture.file(ROOT, "old").await,
        fixture.file(ROOT, "moved").await,
    );
    let folder = fixture.directory(ROOT, "d").await;
    let position = |store: &Store| store.updates(0, 1000).unwrap().last().unwrap().position;
    let through = position(store);
    assert_eq!(store.changed_after(through).unwrap(), []);
    let owner = LockOwner {
        client: b"client"[..].into(),
        owner: b"owner"[..].into(),
    };
    let everything = vfs::ByteRange::EVERYTHING;
    store
        .lock(old, &owner, everything, LockKind::Write)
        .await
        .unwrap();
    assert_eq!(store.changed_after(through).unwrap(), []);
    fixture
        .rename((ROOT, "moved"), (folder, "m"))
        .await
        .unwrap();
    assert_eq!(store.changed_after(through).unwrap(), [ROOT, moved, folder]);
    assert_eq!(store.changed_after(position(store)).unwrap(), []);
    // Unshipped content counts, no matter how old it is.
    fixture.write(old, 0, b"x").await.unwrap();
    assert_eq!(store.changed_after(position(store)).unwrap(), [old]);
    fixture.remove(ROOT, "old").await.unwrap();
    assert_eq!(
        store.changed_after(through).unwrap(),
        [ROOT, old, moved, folder]
    );
    assert_eq!(store.changed_after(u64::MAX).unwrap(), []);
}
