//! Update records, and numbers that are never used twice.

use std::collections::BTreeSet;

use crate::fixture::pair::all_rows;
use crate::fixture::{Approver, Fixture, root, with_mode, with_size};
use bytes::Bytes;
use store::{RowChange, RowSubject, Store, UpdateRecord};
use vfs::{FileSystem, ObjectId, XattrMode, XattrName};

const ROOT: ObjectId = ObjectId::ROOT;
const OBJECTS: u8 = 1;
const ENTRIES: u8 = 2;
const LINKS: u8 = 3;
const XATTRS: u8 = 4;

fn tables(record: &UpdateRecord) -> BTreeSet<u8> {
    record.changes.iter().map(|change| change.table).collect()
}

#[tokio::test]
async fn every_operation_leaves_one_record_of_the_rows_it_changed() {
    let store = Fixture::hooked();
    store.store().end_reclaim().await.unwrap();
    let id = store.file(ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    store.set(id, &with_mode(0o600)).await.unwrap();
    store.link(id, ROOT, "g").await.unwrap();
    let xattr = XattrName::new(&b"x"[..]).unwrap();
    let value = Bytes::from_static(b"v");
    store
        .store()
        .set_xattr(&root(), id, &xattr, value, XattrMode::Any)
        .await
        .unwrap();
    store.rename((ROOT, "g"), (ROOT, "h")).await.unwrap();
    store.set(id, &with_size(1)).await.unwrap();
    store.remove(ROOT, "f").await.unwrap();
    let records = store.store().updates(0, 100).unwrap();
    let names = BTreeSet::from([OBJECTS, ENTRIES, LINKS]);
    let expected = [
        names.clone(),
        BTreeSet::from([OBJECTS]),
        BTreeSet::from([OBJECTS]),
        names.clone(),
        BTreeSet::from([OBJECTS, XATTRS]),
        names.clone(),
        BTreeSet::from([OBJECTS]),
        names,
    ];
    assert_eq!(records.iter().map(tables).collect::<Vec<_>>(), expected);
    let subjects = |at: usize| -> Vec<RowSubject> {
        let rows = records[at].changes.iter();
        rows.filter_map(RowChange::subject).collect()
    };
    assert!(subjects(3).contains(&RowSubject::Link(id)));
    let of_xattr = subjects(4);
    assert!(of_xattr.contains(&RowSubject::Object(id)));
    assert!(of_xattr.contains(&RowSubject::Xattr(id)));
    assert!(!of_xattr.contains(&RowSubject::Link(id)));
    assert!(records.is_sorted_by(|a, b| a.position < b.position));
    // The last change of each row is the row.
    let rows = all_rows(store.store()).await;
    for change in &records.last().unwrap().changes {
        let mut rows = rows.iter();
        let row = rows.find(|row| (row.table, &row.key) == (change.table, &change.key));
        assert_eq!(row.and_then(|row| row.value.clone()), change.value);
    }
    let second = store.store().updates(records[1].position, 2).unwrap();
    assert_eq!(second, records[1..3]);
}

#[tokio::test]
async fn reading_and_refused_operations_leave_no_record() {
    let store = Fixture::hooked();
    let id = store.file(ROOT, "f").await;
    store.write(id, 0, b"data").await.unwrap();
    let before = store.store().updates(0, 100).unwrap();
    store.clock.advance(10);
    store.content(id).await;
    store.list(ROOT, 10).await;
    store.remove(ROOT, "none").await.unwrap_err();
    store.store().sync().await.unwrap();
    assert_eq!(store.store().updates(0, 100).unwrap(), before);
}

#[tokio::test]
async fn nothing_is_recorded_unless_asked_for() {
    let store = Fixture::new();
    store.file(ROOT, "f").await;
    assert!(store.store().updates(0, 100).unwrap().is_empty());
}

/// Counterexamples 17 and 26 of the replication design: a primary crashes, loses unstable changes,
/// and uses the same positions, versions or identifiers again for other changes.
#[tokio::test]
async fn numbers_shown_before_a_crash_are_not_used_again_after_it() {
    let mut store = Fixture::hooked();
    store.file(ROOT, "stable").await;
    // The state after a crash: the disk as it is now, without later changes.
    let crashed = store.crashed_copy();
    let mut shown = Vec::new();
    for number in 0..500 {
        let id = store.file(ROOT, &format!("lost{number}")).await;
        shown.push((id, store.attributes(id).await.change));
    }
    let position = store
        .store()
        .updates(0, 10_000)
        .unwrap()
        .last()
        .unwrap()
        .position;
    store.close();
    let (after, _) = Approver::of(Store::open(&crashed).unwrap());
    let (who, new, set) = (
        root(),
        crate::fixture::name("new"),
        vfs::SetAttributes::default(),
    );
    let made = after
        .create(&who, ROOT, &new, crate::fixture::file(), &set)
        .await;
    let made = made.unwrap().attributes;
    let (last_id, last_change) = *shown.last().unwrap();
    assert!(made.id > last_id && made.change > last_change);
    assert!(after.updates(0, 10_000).unwrap().last().unwrap().position > position);
}
