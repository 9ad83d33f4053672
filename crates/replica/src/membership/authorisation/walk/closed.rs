//! What a lost replica itself sends while the others decide to go on without it.

use super::*;
use crate::membership::losses;

/// How far a site has applied the stream of the first replica.
fn applied(site: &Site) -> u64 {
    site.store.applied(ReplicaSlot(1)).unwrap()
}

/// The lost replica was back in contact, and handed over what it alone had, between the survivors' last reports and their decision to go on
/// without that. Then both survivors found that they had more than was kept; no valid copy was left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_56_what_is_handed_over_behind_the_last_word_is_taken_in_by_nobody() {
    let mut set = Set::failing(3).await;
    let directory = set.sites[0].directory(ROOT, "theirs").await.unwrap();
    set.rest().await;
    set.sites[0].file(directory, "sent").await.unwrap();
    set.cable.lose_answers(set.cable.connections());
    set.sites[0].file(directory, "unsent").await.unwrap();
    let lost = set.crash(0).await;
    set.cable.lose_answers(0);
    eventually("they go on, and nothing else is missing", || {
        set.sites.iter().all(|site| {
            let losses = site.replica.view_status().losses;
            losses.iter().any(|loss| loss.ready_to_settle)
        })
    })
    .await;
    let replica = set.sites[0].replica.local().clone();
    losses::close_everywhere(&replica, ReplicaSlot(1))
        .await
        .unwrap();
    let before: Vec<u64> = set.sites.iter().map(applied).collect();
    set.revive(0, lost).await;
    eventually("it hands over what it has", || {
        let status = set.sites[0].replica.status();
        status.shipped_record_bytes > 0 && status.peers.iter().all(|peer| peer.connected)
    })
    .await;
    // A replica that took it in would have done so by now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after: Vec<u64> = set.sites[1..].iter().map(applied).collect();
    assert_eq!(after, before);
    set.sites[1].give_up(1).await;
    set.revive_until_ready(0).await;
    for site in &set.sites[1..] {
        assert_eq!(*site.replica.has_left().borrow(), None);
    }
    assert_eq!(set.sites[0].recovered().len(), 1, "it is put aside");
    drop(replica);
    set.assert_equal().await;
}
