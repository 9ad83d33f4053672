//! A copy of a whole tree for a new replica.

use crate::fixture::pair::{LEADER, Pair, all_rows};
use crate::fixture::{Fixture, READ, open_owner};
use store::BaseState;
use vfs::{ByteRange, Error, FileSystem, LockKind, LockOwner, ObjectId, ReplicaSlot, Share};

const ROOT: ObjectId = ObjectId::ROOT;

/// A tree with an object of every kind, and a store that will become a copy.
async fn filled() -> (Pair, ObjectId) {
    let pair = Pair::new().await;
    for number in 0..300 {
        let folder = pair.leader.directory(ROOT, &format!("d{number}")).await;
        pair.leader.file(folder, "f").await;
    }
    let id = pair.leader.file(ROOT, "big").await;
    pair.leader.write(id, 0, &[3; 10_000]).await.unwrap();
    (pair, id)
}

/// Copies the tree in pages of about `max_bytes` bytes. Without `finish` the copy stays unfinished after
/// one page.
async fn copy(pair: &Pair, max_bytes: usize, finish: bool) {
    let (leader, follower) = (pair.leader.store(), pair.follower.store());
    follower.begin_resync().await.unwrap();
    let mut scan = leader.base().await.unwrap();
    // Changes made meanwhile are not in the copy.
    pair.leader.file(ROOT, &format!("later {max_bytes}")).await;
    loop {
        let page = scan.next_page(max_bytes).unwrap();
        if page.is_empty() {
            break;
        }
        follower.install_base(page).await.unwrap();
        if !finish {
            return;
        }
    }
    follower.finish_base(scan.positions.clone()).await.unwrap();
}

#[tokio::test]
async fn where_a_stream_goes_on_behind_a_gap_is_in_copies() {
    let pair = Pair::new().await;
    let (leader, other) = (pair.leader.store(), ReplicaSlot(7));
    leader.reached(other, 1 << 16).await.unwrap();
    leader.reached(other, 5).await.unwrap();
    assert_eq!(
        leader.applied(other).unwrap(),
        1 << 16,
        "it never goes back"
    );
    copy(&pair, 1000, true).await;
    assert_eq!(pair.follower.store().applied(other).unwrap(), 1 << 16);
}

#[tokio::test]
async fn a_copy_is_the_same_tree_and_goes_on_from_there() {
    let (pair, id) = filled().await;
    let open = pair.leader.file(ROOT, "open").await;
    pair.leader.open(open, "owner", READ).await.unwrap();
    pair.leader.remove(ROOT, "open").await.unwrap();
    let owner = LockOwner {
        client: b"client"[..].into(),
        owner: b"owner"[..].into(),
    };
    let all = ByteRange::EVERYTHING;
    pair.leader
        .store()
        .lock(id, &owner, all, LockKind::Write)
        .await
        .unwrap();
    let alone = Share {
        deny_write: true,
        ..READ
    };
    pair.leader.open(id, "alone", alone).await.unwrap();
    copy(&pair, 1000, true).await;
    let follower = pair.follower.store();
    assert_eq!(follower.base_state(), Ok(BaseState::Whole));
    assert!(pair.follower.find(ROOT, "later 1000").await.is_err());
    assert!(follower.holds_lock(id, &owner).await.unwrap());
    let write = pair.follower.open(id, "b", crate::fixture::WRITE).await;
    assert_eq!(write.unwrap_err(), Error::ShareDenied);
    assert!(follower.applied(LEADER).unwrap() > 0);
    pair.follow().await;
    assert!(pair.follower.find(ROOT, "later 1000").await.is_ok());
    pair.same_rows().await;
    // All files with their sizes, page by page.
    let mut files = Vec::new();
    while let page = follower
        .files(files.last().map(|(id, _)| *id), 100)
        .unwrap()
        && !page.is_empty()
    {
        files.extend(page);
    }
    assert_eq!(files.len(), 302);
    assert_eq!(files.iter().map(|(_, size)| *size).sum::<u64>(), 10_000);
    pair.ship(id).await;
    assert_eq!(pair.follower.content(id).await, vec![3; 10_000]);
    assert_eq!(
        follower.statistics().objects,
        pair.leader.store().statistics().objects - 1
    );
    pair.leader
        .store()
        .close(open, &open_owner("owner"))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_interrupted_copy_says_so_and_is_begun_again() {
    let (mut pair, _) = filled().await;
    copy(&pair, 20_000, false).await;
    pair.follower.reopen_unsynced();
    assert_eq!(
        pair.follower.store().base_state(),
        Ok(BaseState::Resynchronising)
    );
    copy(&pair, 1 << 20, true).await;
    pair.follow().await;
    pair.same_rows().await;
    let directory = pair.follower.options.directory.clone();
    pair.follower.close();
    let report = store::Store::check(&directory, false).unwrap();
    assert!(report.sound, "{report}");
}

#[tokio::test]
async fn a_tree_is_not_overwritten_by_a_copy_that_was_not_begun() {
    let store = Fixture::new();
    store.file(ROOT, "f").await;
    let rows = all_rows(store.store()).await;
    assert!(matches!(
        store.store().install_base(rows).await,
        Err(Error::Invalid(_))
    ));
    assert!(store.store().finish_base(Vec::new()).await.is_err());
    assert_eq!(store.store().base_state(), Ok(BaseState::Whole));
}
