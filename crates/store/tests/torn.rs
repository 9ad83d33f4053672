//! Files of which a lost primary had sent only a part: abandoned, adopted, torn, and complete again.

use crate::fixture::pair::{LEADER, Pair};
use crate::fixture::{Fixture, with_size};
use bytes::Bytes;
use store::{ContentPiece, Fate, Store, VersionBefore};
use vfs::{Error, FileSystem, ObjectId, ReplicaSlot};

const ROOT: ObjectId = ObjectId::ROOT;

async fn put(store: &Store, file: ObjectId, bytes: &'static [u8]) {
    let bytes = Bytes::from_static(bytes);
    let piece = ContentPiece::Data { offset: 0, bytes };
    store.put_content(file, piece).await.unwrap();
}

/// A file that the follower has completely, and a second version of which it has only the row.
async fn second_version() -> (Pair, ObjectId) {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.follow_one(&[]).await;
    pair.leader.write(id, 0, b"first").await.unwrap();
    let first = pair.follow_one(&[id]).await;
    let store = pair.follower.store();
    put(store, id, b"first").await;
    assert_eq!(store.whole_before(id, LEADER), None, "some of it has come");
    store.note_complete(id, LEADER, first).await.unwrap();
    pair.leader.write(id, 2, b"SECOND").await.unwrap();
    pair.follow_one(&[id]).await;
    (pair, id)
}

#[tokio::test]
async fn the_version_before_is_known_until_some_of_the_next_one_comes() {
    let (mut pair, id) = second_version().await;
    let store = pair.follower.store();
    assert_eq!(store.whole_before(id, LEADER), Some(5));
    // A cut removes a part of the old data, unless it removes everything.
    pair.leader.write(id, 0, b"more").await.unwrap();
    pair.follow_one(&[id]).await;
    assert_eq!(store.whole_before(id, LEADER), Some(5));
    pair.leader.set(id, &with_size(3)).await.unwrap();
    pair.follow_one(&[id]).await;
    assert_eq!(store.whole_before(id, LEADER), None);
    pair.leader.set(id, &with_size(0)).await.unwrap();
    pair.follow_one(&[id]).await;
    assert_eq!(store.whole_before(id, LEADER), Some(0));
    store.sync().await.unwrap();
    pair.follower.crash();
    let store = pair.follower.store();
    assert_eq!(
        store.whole_before(id, LEADER),
        None,
        "nobody knows any more"
    );
    assert!(store.is_incomplete(id));
}

#[tokio::test]
async fn what_is_abandoned_stays_so_until_it_is_adopted_and_torn_until_it_is_emptied() {
    let (mut pair, id) = second_version().await;
    let store = pair.follower.store();
    put(store, id, b"fiSEC").await;
    let version = store.attributes(id).await.unwrap().change;
    store.abandon(LEADER, 7).await.unwrap();
    assert!(store.is_abandoned(id));
    assert_eq!(store.abandoned(), Ok(vec![(id, VersionBefore::Partial)]));
    assert_eq!(store.incomplete_files(LEADER), Ok(Vec::new()));
    pair.follower.crash();
    let store = pair.follower.store();
    assert!(store.is_abandoned(id));
    store.adopt(id, Fate::Torn).await.unwrap();
    assert!(!store.is_abandoned(id));
    assert!(matches!(
        pair.follower.read(id, 0, 100).await,
        Err(Error::Io(_))
    ));
    let later = store.attributes(id).await.unwrap().change;
    assert!(
        later.0 > version.0 + (1 << 29),
        "nobody has seen such a version"
    );
    store.sync().await.unwrap();
    pair.follower.crash();
    let store = pair.follower.store();
    assert_eq!(store.torn(), [id]);
    assert!(matches!(
        pair.follower.read(id, 0, 100).await,
        Err(Error::Io(_))
    ));
    pair.follower.set(id, &with_size(2)).await.unwrap();
    assert!(matches!(
        pair.follower.read(id, 0, 100).await,
        Err(Error::Io(_))
    ));
    pair.follower.set(id, &with_size(0)).await.unwrap();
    assert_eq!(pair.follower.read(id, 0, 100).await.unwrap(), "");
    assert_eq!(store.torn(), []);
    store.sync().await.unwrap();
    pair.follower.crash();
    assert_eq!(pair.follower.store().torn(), []);
}

#[tokio::test]
async fn others_learn_that_a_file_is_torn_and_that_it_was_adopted() {
    let (pair, id) = second_version().await;
    let (leader, follower) = (pair.leader.store(), pair.follower.store());
    follower.abandon(LEADER, 7).await.unwrap();
    // A repeat is not a new decision.
    follower.abandon(LEADER, 7).await.unwrap();
    assert_eq!(
        follower.abandoned(),
        Ok(vec![(id, VersionBefore::Whole(5))])
    );
    // The leader has given up another replica's data of the file.
    let third = ReplicaSlot(9);
    let lacking = leader.note_lacking((id, third), (0, 1), 0);
    lacking.await.unwrap();
    leader.abandon(third, 7).await.unwrap();
    leader.adopt(id, Fate::Torn).await.unwrap();
    let adopted = pair.follow_one(&[id]).await;
    assert!(follower.is_abandoned(id), "its data has not come");
    let before = follower.whole_before(id, LEADER);
    assert_eq!(before, Some(5), "the leader may be lost before it comes");
    put(follower, id, b"fiSECOND").await;
    follower.note_complete(id, LEADER, adopted).await.unwrap();
    assert!(!follower.is_abandoned(id));
    assert_eq!(follower.torn(), [id]);
    assert!(matches!(
        pair.follower.read(id, 0, 100).await,
        Err(Error::Io(_))
    ));
    pair.leader.set(id, &with_size(0)).await.unwrap();
    pair.follow_one(&[id]).await;
    assert_eq!(follower.torn(), []);
    pair.leader.remove(ROOT, "f").await.unwrap();
}

#[tokio::test]
async fn counterexample_111_whether_the_version_before_is_whole_is_unknown_after_a_restart() {
    let (mut pair, id) = second_version().await;
    let store = pair.follower.store();
    store.abandon(LEADER, 7).await.unwrap();
    let whole = VersionBefore::Whole(5);
    assert_eq!(store.abandoned(), Ok(vec![(id, whole)]));
    store.sync().await.unwrap();
    pair.follower.crash();
    let unknown = VersionBefore::Unknown;
    assert_eq!(pair.follower.store().abandoned(), Ok(vec![(id, unknown)]));
}

#[tokio::test]
async fn counterexample_112_who_comes_late_adopts_nothing_and_renews_nothing_that_is_abandoned() {
    let (pair, id) = second_version().await;
    let store = pair.follower.store();
    store.abandon(LEADER, 7).await.unwrap();
    assert_eq!(store.renew(id).await, Err(Error::Delay));
    assert!(store.is_abandoned(id));
    store.adopt(id, Fate::Before(5)).await.unwrap();
    let adopted = store.attributes(id).await.unwrap().change;
    // Another survivor has taken it for torn.
    for late in [Fate::Torn, Fate::AsItIs, Fate::Before(2)] {
        assert_eq!(store.adopt(id, late).await, Err(Error::Delay));
    }
    assert_eq!(store.attributes(id).await.unwrap().change, adopted);
    assert_eq!(store.torn(), []);
    assert_eq!(pair.follower.read(id, 0, 5).await.unwrap(), "first");
}

/// Servers that are gone for ever had shown versions that were unknown here, and this server used the same versions again.
#[tokio::test]
async fn versions_that_somebody_gone_may_have_shown_are_passed_once_and_survive_a_crash() {
    let mut one = Fixture::new();
    one.store().end_reclaim().await.unwrap();
    let file = one.file(ROOT, "f").await;
    let before = one.attributes(file).await.change.0;
    one.store().pass_versions([LEADER]).await.unwrap();
    one.crash();
    one.store().end_reclaim().await.unwrap();
    one.write(file, 0, b"behind").await.unwrap();
    let behind = one.attributes(file).await.change.0;
    assert!(
        behind > before + (1 << 33),
        "nobody has seen such a version"
    );
    one.store().pass_versions([LEADER]).await.unwrap();
    one.write(file, 0, b"again").await.unwrap();
    let known = one.attributes(file).await.change.0;
    assert!(known < behind + (1 << 20), "it was known");
    one.store()
        .pass_versions([LEADER, ReplicaSlot(7)])
        .await
        .unwrap();
    one.write(file, 0, b"once more").await.unwrap();
    let another = one.attributes(file).await.change.0;
    assert!(another > behind + (1 << 33), "one more is gone");
}

/// Data of a third replica is missing, too, and the adopting replica's comes first.
#[tokio::test]
async fn counterexample_112_an_adopted_file_is_not_adopted_again_whatever_else_is_missing() {
    let (pair, id) = second_version().await;
    let (leader, follower) = (pair.leader.store(), pair.follower.store());
    follower.abandon(LEADER, 7).await.unwrap();
    let third = ReplicaSlot(9);
    for store in [leader, follower] {
        let lacking = store.note_lacking((id, third), (0, 1), 0);
        lacking.await.unwrap();
    }
    assert!(!follower.is_to_be_adopted(id), "what gave way comes first");
    leader.abandon(third, 7).await.unwrap();
    leader.adopt(id, Fate::AsItIs).await.unwrap();
    let adopted = pair.follow_one(&[id]).await;
    assert!(follower.is_abandoned(id), "its data has not come");
    put(follower, id, b"fiSECOND").await;
    follower.note_complete(id, LEADER, adopted).await.unwrap();
    assert!(!follower.is_abandoned(id));
    assert_eq!(follower.lacks_data_of(id), [third]);
}

/// A member owes data of its own, which comes after the decision.
#[tokio::test]
async fn counterexample_111_who_gets_data_of_an_abandoned_file_leaves_it_to_those_who_know() {
    let (pair, id) = second_version().await;
    let store = pair.follower.store();
    store.abandon(LEADER, 7).await.unwrap();
    put(store, id, b"fi").await;
    assert_eq!(store.abandoned(), Ok(vec![(id, VersionBefore::Unknown)]));
}

/// The adopting replica took it for torn, and is lost before any data of that comes.
#[tokio::test]
async fn counterexample_111_a_file_that_is_whole_is_not_torn_by_an_adoption_that_is_lost() {
    let (pair, id) = second_version().await;
    let (leader, follower) = (pair.leader.store(), pair.follower.store());
    follower.abandon(LEADER, 7).await.unwrap();
    let third = ReplicaSlot(9);
    let lacking = leader.note_lacking((id, third), (0, 1), 0);
    lacking.await.unwrap();
    leader.abandon(third, 7).await.unwrap();
    leader.adopt(id, Fate::Torn).await.unwrap();
    pair.follow_one(&[id]).await;
    follower.abandon(LEADER, 8).await.unwrap();
    let whole = VersionBefore::Whole(5);
    assert_eq!(follower.abandoned(), Ok(vec![(id, whole)]));
    follower.adopt(id, Fate::Before(5)).await.unwrap();
    assert_eq!(follower.torn(), []);
    assert_eq!(pair.follower.read(id, 0, 100).await.unwrap(), "first");
}
