//! How far the clocks of replicas are apart is measured over their connections.

use crate::fixture::{Set, eventually};

const SECOND_US: i64 = 1_000_000;

/// By how much the clock of a member is ahead as a site has measured it, to the second.
fn ahead_seconds(set: &Set, at: usize, slot: u16) -> Option<i64> {
    let peers = set.sites[at].replica.status().peers.into_iter();
    let clock = peers
        .filter(|peer| peer.slot == slot)
        .find_map(|peer| peer.clock)?;
    let exact_us = i64::try_from(clock.within_us).unwrap() + 10;
    let seconds = clock
        .ahead_us
        .saturating_add(SECOND_US / 2)
        .div_euclid(SECOND_US);
    let off_us = clock.ahead_us - seconds * SECOND_US;
    assert!(off_us.abs() <= exact_us, "{clock:?}");
    // What took long is not to be relied upon to the second.
    (exact_us < SECOND_US / 2).then_some(seconds)
}

/// Waits until each of three sites has measured that the clocks are so far from the true time.
async fn measured(set: &Set, ahead: [i64; 3]) {
    for (at, own) in ahead.iter().enumerate() {
        for (slot, theirs) in (1..)
            .zip(ahead)
            .filter(|(slot, _)| usize::from(*slot) != at + 1)
        {
            let what = format!("site {at} knows how far the clock of replica {slot} is ahead");
            eventually(&what, || ahead_seconds(set, at, slot) == Some(theirs - own)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_knows_whose_clock_differs_and_by_how_much() {
    let mut set = Set::failing(3).await;
    measured(&set, [0, 0, 0]).await;
    set.sites[1].clock.set_ahead(3600);
    measured(&set, [0, 3600, 0]).await;
    set.sites[2].clock.set_ahead(-7);
    measured(&set, [0, 3600, -7]).await;
    // It is set right, and nothing is left of it.
    set.sites[1].clock.set_ahead(0);
    measured(&set, [0, 0, -7]).await;
    // Of one that does not answer nothing is said.
    let away = set.crash(2).await;
    eventually("nothing is known of who is away", || {
        ahead_seconds(&set, 0, 3).is_none()
    })
    .await;
    drop(away);
}
