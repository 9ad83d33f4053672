//! Locks and denials that are recorded for other replicas.

use crate::fixture::pair::Pair;
use crate::fixture::{Fixture, READ, REFUSED, WRITE, open_owner};
use store::{Change, Touched, TouchedKind};
use vfs::{ByteRange, Error, FileSystem, LockKind, LockOwner, ObjectId, Share};

const ROOT: ObjectId = ObjectId::ROOT;
const ALONE: Share = Share {
    deny_write: true,
    ..READ
};

fn owner(name: &str) -> LockOwner {
    LockOwner {
        client: b"client"[..].into(),
        owner: name.as_bytes().into(),
    }
}

fn bytes(start: u64, last: u64) -> ByteRange {
    ByteRange::from_bounds(start, last).unwrap()
}

async fn lock(store: &Fixture, id: ObjectId, name: &str, range: ByteRange) -> vfs::Result<()> {
    let owner = owner(name);
    store.store().lock(id, &owner, range, LockKind::Write).await
}

#[tokio::test]
async fn locks_are_held_where_the_primary_says() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    let mut changes = pair.follower.store().lock_changes();
    lock(&pair.leader, id, "a", bytes(0, 9)).await.unwrap();
    pair.follow().await;
    assert!(matches!(
        lock(&pair.follower, id, "b", bytes(5, 6)).await,
        Err(Error::Locked(_))
    ));
    assert_eq!(changes.recv().await, Ok(id));
    let all = ByteRange::EVERYTHING;
    pair.leader
        .store()
        .unlock(id, &owner("a"), all)
        .await
        .unwrap();
    pair.follow().await;
    assert_eq!(changes.recv().await, Ok(id));
    lock(&pair.follower, id, "b", bytes(5, 6)).await.unwrap();
    // A removed file has no locks.
    lock(&pair.leader, id, "a", bytes(0, 9)).await.unwrap();
    pair.leader.remove(ROOT, "f").await.unwrap();
    pair.follow().await;
    assert!(
        !pair
            .follower
            .store()
            .holds_lock(id, &owner("a"))
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn a_refused_lock_leaves_the_locks_as_they_were() {
    let store = Fixture::hooked();
    let id = store.file(ROOT, "f").await;
    lock(&store, id, "a", bytes(0, 9)).await.unwrap();
    let records = store.store().updates(0, 10).unwrap();
    store.approver().take_asked();
    store.approver().refuse(true);
    assert_eq!(lock(&store, id, "b", bytes(20, 29)).await, Err(REFUSED));
    let all = ByteRange::EVERYTHING;
    assert_eq!(
        store.store().unlock(id, &owner("a"), all).await,
        Err(REFUSED)
    );
    assert!(store.store().holds_lock(id, &owner("a")).await.unwrap());
    assert!(!store.store().holds_lock(id, &owner("b")).await.unwrap());
    let touched = Touched {
        id,
        kind: TouchedKind::File,
    };
    assert_eq!(store.approver().take_asked(), [Change::Object(touched); 2]);
    assert_eq!(store.store().updates(0, 10).unwrap(), records);
}

#[tokio::test]
async fn denials_hold_everywhere_until_they_are_given_up() {
    let pair = Pair::new().await;
    let id = pair.leader.file(ROOT, "f").await;
    pair.leader.open(id, "reader", READ).await.unwrap();
    pair.leader.approver().take_asked();
    pair.leader.open(id, "a", ALONE).await.unwrap();
    pair.follow().await;
    assert_eq!(
        pair.follower.open(id, "b", WRITE).await.unwrap_err(),
        Error::ShareDenied
    );
    pair.follower.open(id, "b", READ).await.unwrap();
    pair.leader
        .store()
        .downgrade(id, &open_owner("a"), READ)
        .await
        .unwrap();
    pair.follow().await;
    pair.follower.open(id, "b", WRITE).await.unwrap();
    // An open without denials is not recorded.
    pair.leader
        .store()
        .close(id, &open_owner("a"))
        .await
        .unwrap();
    pair.leader
        .store()
        .close(id, &open_owner("reader"))
        .await
        .unwrap();
    assert_eq!(pair.leader.approver().take_asked().len(), 2);
}

#[tokio::test]
async fn refused_opens_and_closes_leave_what_is_denied() {
    let store = Fixture::hooked();
    let id = store.file(ROOT, "f").await;
    store.open(id, "a", ALONE).await.unwrap();
    store.approver().refuse(true);
    assert_eq!(
        store.store().close(id, &open_owner("a")).await,
        Err(REFUSED)
    );
    let none = store.store().downgrade(id, &open_owner("a"), READ).await;
    assert_eq!(none, Err(REFUSED));
    assert_eq!(store.open(id, "b", ALONE).await.unwrap_err(), REFUSED);
    assert_eq!(
        store.open(id, "c", WRITE).await.unwrap_err(),
        Error::ShareDenied
    );
    store.approver().refuse(false);
    store.store().close(id, &open_owner("a")).await.unwrap();
    store.open(id, "c", WRITE).await.unwrap();
}
