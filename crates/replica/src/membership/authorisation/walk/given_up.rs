//! The others have gone on without what one alone had made, which has something else that one of them lacks.

use super::*;

const BACK: &str = "lack updates of other replicas that are here";

/// Of three the second has made something that the third has, and the first has not got yet. The third is lost, and the others go on without what
/// it alone had. It is back, and keeps its copy until the first has that, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_61_who_was_given_up_keeps_what_counts_because_it_is_there() {
    let mut set = Set::failing(3).await;
    let parent = set.sites[1].directory(ROOT, "of-the-second").await.unwrap();
    let theirs = set.sites[2].directory(ROOT, "of-the-third").await.unwrap();
    set.rest().await;
    let first = set.sites[0].replica.local().clone();
    let inbox = first.state.inboxes.get(ReplicaSlot(2)).unwrap();
    let nothing_more = inbox.applying.lock().await;
    set.sites[1].directory(parent, "answered").await.unwrap();

    // Something of it is frozen.
    set.sites[2].directory(theirs, "made").await.unwrap();

    let third = set.crash(2).await;
    let second = &set.sites[1].replica;
    eventually("the others are level", || {
        let losses = second.view_status().losses;
        losses
            .iter()
            .any(|loss| loss.slot == 3 && loss.ready_to_settle)
    })
    .await;
    second.thaw(3, "its disk is gone").await.unwrap();
    set.revive(2, third).await;
    let third = &set.sites[2].replica;
    eventually("it says what it waits for", || {
        let obstacle = third.view_status().obstacle;
        obstacle.is_some_and(|obstacle| obstacle.contains(BACK))
    })
    .await;
    let here = set.sites[2].store.applied(ReplicaSlot(2)).unwrap();
    let lacking = set.sites[0].store.applied(ReplicaSlot(2)).unwrap();
    assert!(here > lacking, "it has given its copy up");

    drop(nothing_more);
    drop((inbox, first));
    set.revive_until_ready(2).await;
    set.sites[2].find(parent, "answered").await.unwrap();
    set.assert_equal().await;
}
