//! Writing facts about the past when the caller stops waiting.

use std::pin::pin;
use std::task::Poll;

use store::{NewStore, StoreOptions};

use super::*;

async fn lineage(directory: &tempfile::TempDir) -> Arc<Lineage> {
    let options = StoreOptions::new(directory.path().join("tree"));
    let new = NewStore {
        slot: ReplicaSlot(1),
        ..NewStore::default()
    };
    let store = Arc::new(Store::open_or_create(&options, &new).unwrap());
    let key = Key::of_nobody();
    let begun = Lineage::begin(store, key, 1, BTreeSet::new(), Duration::ZERO);
    Arc::new(begun.await.unwrap())
}

fn row(key: &[u8]) -> Rows {
    vec![(key.to_vec(), Some(Vec::new()))]
}

/// Begins something, and stops waiting for it at the first pause.
async fn give_up(work: impl Future<Output = Result<()>>) {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        assert!(
            work.as_mut().poll(context).is_pending(),
            "it waits for the disk"
        );
        Poll::Ready(())
    })
    .await;
}

/// Returns when a row is there.
async fn until_written(lineage: &Lineage, key: &[u8]) {
    while lineage.store.facts(key).unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_mark_is_not_given_twice_although_nobody_waits_for_the_first_one() {
    let directory = tempfile::tempdir().unwrap();
    let lineage = lineage(&directory).await;
    let before = lineage.mark().number;
    give_up(lineage.write_agreed(row(b"first"))).await;
    until_written(&lineage, b"first").await;
    lineage.write_agreed(row(b"second")).await.unwrap();
    assert_eq!(lineage.agreed_mark().number, before + 2);
}

#[tokio::test]
async fn what_was_met_of_others_is_kept_although_nobody_waits_for_that() {
    let directory = tempfile::tempdir().unwrap();
    let lineage = lineage(&directory).await;
    let through = lineage.key.updates(ReplicaSlot(2), 7);
    lineage.note_applied(ReplicaSlot(2), through);
    let moved = lineage.store.put_facts(row(b"moved")).await.unwrap();
    lineage.store.wait_stable(moved).await.unwrap();
    let before = lineage.mark().number;
    give_up(lineage.keep()).await;
    until_written(&lineage, APPLIED).await;
    lineage.write_agreed(row(b"next")).await.unwrap();
    let marks = lineage.agreed_mark().number - before;
    assert_eq!(marks, 2, "the mark of what was kept is counted");
}
