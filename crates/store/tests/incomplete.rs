//! Files whose data has not arrived yet: marked together with the rows, until all of it has arrived.

use crate::fixture::pair::{LEADER, Pair, apply, update};
use crate::fixture::{Fixture, READ, open_owner};
use store::ForeignUpdate;
use vfs::{Error, FileSystem, ObjectId, ReplicaSlot, SetAttributes};

const ROOT: ObjectId = ObjectId::ROOT;
const OTHER: ReplicaSlot = ReplicaSlot(9);

#[tokio::test]
async fn a_file_is_marked_with_the_rows_until_everything_has_come() {
    let mut pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    let born = pair.follow_one(&[]).await;
    assert!(!pair.follower.store().is_incomplete(id));
    pair.leader.write(id, 0, b"one").await.unwrap();
    let first = pair.follow_one(&[id]).await;
    pair.leader.write(id, 3, b"two").await.unwrap();
    let second = pair.follow_one(&[id, id]).await;
    let marked = |pair: &Pair| pair.follower.store().incomplete_files(LEADER).unwrap();
    assert_eq!(marked(&pair), [(id, born, second)]);
    assert!(pair.follower.store().is_incomplete(id));
    assert_eq!(pair.follower.store().incomplete_files(OTHER).unwrap(), []);
    pair.follower.crash();
    assert_eq!(marked(&pair), [(id, born, second)]);
    // Some of it has arrived, and reports of other primaries do not count.
    let store = pair.follower.store();
    store.note_complete(id, LEADER, first).await.unwrap();
    store.note_complete(id, OTHER, second).await.unwrap();
    assert_eq!(marked(&pair), [(id, first, second)]);
    store.note_complete(id, LEADER, born).await.unwrap();
    assert_eq!(marked(&pair), [(id, first, second)]);
    store.sync().await.unwrap();
    pair.follower.crash();
    assert_eq!(marked(&pair), [(id, first, second)]);
    let store = pair.follower.store();
    store.note_complete(id, LEADER, second).await.unwrap();
    assert!(!store.is_incomplete(id));
    let batches = store.statistics().batches;
    store.note_complete(id, LEADER, second + 1).await.unwrap();
    assert_eq!(store.statistics().batches, batches);
    store.sync().await.unwrap();
    pair.follower.crash();
    assert!(!pair.follower.store().is_incomplete(id));
    assert_eq!(marked(&pair), []);
}

/// A primary wrote in two turns, and the data of the first has arrived: the missing data follows the version before the second turn.
#[tokio::test]
async fn what_is_missing_follows_the_version_before_the_last_turn() {
    let mut pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.follow_one(&[]).await;
    let born = pair.leader.attributes(id).await.change.0;
    pair.leader.write(id, 0, b"one").await.unwrap();
    let first = pair.follow_one(&[id]).await;
    pair.leader.write(id, 3, b"two").await.unwrap();
    pair.follow_one(&[id]).await;
    let before = |pair: &Pair| pair.follower.store().version_before(id, LEADER);
    assert_eq!(before(&pair), born);
    let store = pair.follower.store();
    store.note_complete(id, LEADER, first).await.unwrap();
    assert_eq!(before(&pair), born, "the same turn");
    let mode = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    pair.leader.set(id, &mode).await.unwrap();
    let between = pair.follow_one(&[]).await;
    let resumed = pair.leader.attributes(id).await.change.0;
    pair.leader.write(id, 6, b"three").await.unwrap();
    pair.follow_one(&[id]).await;
    assert_eq!(before(&pair), born);
    let store = pair.follower.store();
    store.note_complete(id, LEADER, between).await.unwrap();
    assert_eq!(before(&pair), resumed);
    store.sync().await.unwrap();
    pair.follower.crash();
    assert_eq!(before(&pair), resumed);
}

/// A copy that lacks local data replaced it: earlier and repeated reports of its primary do not count.
#[tokio::test]
async fn what_has_given_way_is_complete_when_it_was_sent_again() {
    let mut pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.follow_one(&[]).await;
    pair.leader.write(id, 0, b"one").await.unwrap();
    let written = pair.follow_one(&[id]).await;
    let store = pair.follower.store();
    store.note_complete(id, LEADER, written).await.unwrap();
    let lacking = (written - 1, written);
    store.note_lacking((id, LEADER), lacking, 7).await.unwrap();
    pair.follower.crash();
    let store = pair.follower.store();
    assert!(store.is_incomplete(id) && store.has_given_way(LEADER, Some(id)));
    assert_eq!(store.version_before(id, LEADER), 7);
    store.note_complete(id, LEADER, written + 1).await.unwrap();
    assert!(store.is_incomplete(id));
    store
        .note_complete_again(id, LEADER, written)
        .await
        .unwrap();
    assert!(!store.is_incomplete(id) && !store.has_given_way(LEADER, None));
}

/// A replica that may write has all data, even if the last report of that has not arrived.
#[tokio::test]
async fn who_writes_a_file_lacks_nothing_of_it() {
    let mut pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    let other = pair.leader.file(ROOT, "g").await;
    pair.follow().await;
    for file in [id, other] {
        pair.leader.write(file, 0, b"one").await.unwrap();
        pair.follow_one(&[file]).await;
    }
    pair.follower.hook();
    pair.follower.write(id, 0, b"two").await.unwrap();
    let store = pair.follower.store();
    assert!(!store.is_incomplete(id) && store.is_incomplete(other));
    store.sync().await.unwrap();
    pair.follower.crash();
    let store = pair.follower.store();
    assert!(!store.is_incomplete(id) && store.is_incomplete(other));
}

#[tokio::test]
async fn a_new_file_is_complete_through_nothing() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    let born = pair.follow_one(&[id]).await;
    let store = pair.follower.store();
    assert_eq!(store.incomplete_files(LEADER), Ok(vec![(id, 0, born)]));
}

#[tokio::test]
async fn a_removed_file_takes_its_mark_along() {
    let mut pair = Pair::new().await;
    let mut ids = Vec::new();
    for name in ["shut", "open"] {
        let id = pair.leader.file(ROOT, name).await;
        pair.follow_one(&[id]).await;
        ids.push(id);
    }
    let (shut, open) = (ids[0], ids[1]);
    pair.follower.open(open, "owner", READ).await.unwrap();
    // The record that removes a file may contain a change of its data, too.
    pair.leader.remove(ROOT, "shut").await.unwrap();
    pair.follow_one(&[shut]).await;
    pair.leader.remove(ROOT, "open").await.unwrap();
    pair.follow_one(&[open]).await;
    let store = pair.follower.store();
    assert!(!store.is_incomplete(shut));
    // Its data will never arrive, so the client that has it open must not read it as complete.
    assert!(store.is_incomplete(open));
    assert_eq!(store.incomplete_files(LEADER).unwrap(), []);
    store.close(open, &open_owner("owner")).await.unwrap();
    assert!(!store.is_incomplete(open));
    store.sync().await.unwrap();
    pair.follower.crash();
    assert!(!pair.follower.store().is_incomplete(open));
    let directory = pair.follower.options.directory.clone();
    pair.follower.close();
    let report = store::Store::check(&directory, false).unwrap();
    assert!(report.sound, "{report}");
}

#[tokio::test]
async fn what_is_no_file_has_no_data_to_lack() {
    let pair = Pair::new().await;
    let folder = pair.leader.directory(ROOT, "d").await;
    let record = pair.leader.store().updates(0, 1).unwrap().remove(0);
    let update = ForeignUpdate {
        incomplete: vec![folder],
        ..update(record)
    };
    let refused = apply(pair.follower.store(), update, &mut Vec::new()).await;
    assert!(matches!(refused, Err(Error::Invalid(_))));
    assert_eq!(pair.follower.store().applied(LEADER), Ok(0));
    assert!(pair.follower.find(ROOT, "d").await.is_err());
}

/// A supplier's client had a removed file open that lacked data. The copy told of that, and nothing ever removed it there: it had no such file.
#[tokio::test]
async fn counterexample_108_a_copy_tells_nothing_of_files_without_a_name() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "open").await;
    pair.follow_one(&[]).await;
    pair.leader.write(id, 0, b"one").await.unwrap();
    pair.follow_one(&[id]).await;
    pair.follower.open(id, "owner", READ).await.unwrap();
    pair.leader.remove(ROOT, "open").await.unwrap();
    pair.follow_one(&[]).await;
    assert!(pair.follower.store().is_incomplete(id));
    let mut third = Fixture::beside(&pair.follower);
    let (from, to) = (pair.follower.store(), third.store());
    to.begin_resync().await.unwrap();
    let mut scan = from.base().await.unwrap();
    while let page = scan.next_page(100).unwrap()
        && !page.is_empty()
    {
        to.install_base(page).await.unwrap();
    }
    to.finish_base(scan.positions.clone()).await.unwrap();
    assert!(!to.is_incomplete(id));
    let directory = third.options.directory.clone();
    third.close();
    let report = store::Store::check(&directory, false).unwrap();
    assert!(report.sound, "{report}");
}

#[tokio::test]
async fn a_copy_lacks_what_its_supplier_lacks_and_an_update_tells_nothing_of_that() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.follow_one(&[]).await;
    pair.leader.write(id, 0, b"one").await.unwrap();
    pair.follow_one(&[id]).await;
    let mut third = Fixture::beside(&pair.follower);
    let (from, to) = (pair.follower.store(), third.store());
    let marked = from.incomplete_files(LEADER).unwrap();
    assert_eq!(marked.len(), 1);
    to.begin_resync().await.unwrap();
    let mut scan = from.base().await.unwrap();
    let mut mark = None;
    while let page = scan.next_page(100).unwrap()
        && !page.is_empty()
    {
        mark = page.last().cloned();
        to.install_base(page).await.unwrap();
    }
    to.finish_base(scan.positions.clone()).await.unwrap();
    assert_eq!(to.incomplete_files(LEADER).unwrap(), marked);
    third.crash();
    assert_eq!(third.store().incomplete_files(LEADER).unwrap(), marked);
    let told = ForeignUpdate {
        from: OTHER,
        position: 1,
        changes: vec![mark.unwrap()],
        incomplete: Vec::new(),
    };
    let told = apply(third.store(), told, &mut Vec::new()).await;
    assert!(matches!(told, Err(Error::Invalid(_))), "{told:?}");
}
