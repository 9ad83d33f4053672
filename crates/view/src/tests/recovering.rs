//! The majority is gone for ever, and an administrator says so.

use std::sync::Arc;

use super::fixture::{Set, slot, until};
use crate::{Outcome, StableStorage, force, last_known};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_survivor_goes_on_alone() {
    let mut set = Set::found(3).await;
    set.admit(1, 1, 4).await;
    for number in 1..=3 {
        set.stop(number).await;
    }
    let storage: Arc<dyn StableStorage> = set.storage(1);
    let known = last_known(Arc::clone(&storage)).await.unwrap();
    assert_eq!((known.epoch, known.members.len()), (2, 3));
    let forced = force(storage, [slot(1)].into(), slot(1), 9).await;
    assert_eq!(forced, Ok(Outcome::Applied));
    set.start(1).await;
    until("it holds", || set.state(1).members.len() == 1).await;
    assert_eq!(set.state(1).losses.len(), 2);
    assert!(set.state(1).is_active(slot(1)));
    let what = &set.state(1).audit.back().unwrap().what.clone();
    assert_eq!(
        what,
        "went on with replica 1, given up for ever: replicas 2, 3"
    );
    set.admit(1, 1, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_survivors_of_five_go_on_together() {
    let mut set = Set::found(5).await;
    set.admit(1, 2, 4).await;
    until("the other survivor has it", || set.state(2).epoch == 2).await;
    for number in 1..=5 {
        set.stop(number).await;
    }
    // The other one stands for election in vain meanwhile, so its term is ahead.
    set.start(2).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let survivors = [slot(1), slot(2)].into();
    let forced = force(set.storage(1), survivors, slot(1), 9).await;
    assert_eq!(forced, Ok(Outcome::Applied));
    set.start(1).await;
    for number in [1, 2] {
        until("both know", || set.state(number).members.len() == 2).await;
    }
    set.admit(2, 2, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survivors_must_be_members() {
    let set = Set::found(1).await;
    set.stop(1).await;
    let before = set.storage(1).0.lock().unwrap().clone();
    let forced = force(set.storage(1), [slot(1), slot(2)].into(), slot(1), 9).await;
    assert!(matches!(forced, Ok(Outcome::Refused(_))), "{forced:?}");
    assert_eq!(*set.storage(1).0.lock().unwrap(), before);
}
