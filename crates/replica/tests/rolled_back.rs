//! A data directory that was put back from an older copy, or lost the end of its journal, takes no part any more.
//!
//! Such a server had led the views, was put back from a snapshot of its machine, and took part again: two histories
//! carried the same view numbers, and the set hung. Another one, whose journal had lost its end, answered OK to a mkdir
//! of a name that it had lost, and its new directory took the place of the good one at both others.

use std::sync::Arc;
use std::time::Duration;

use crate::fixture::{ROOT, Set, Site, eventually, patiently};
use replica::Replica;
use replica::recovering_set::go_on_with;

/// Long enough for others to note how far a replica is.
async fn until_noted() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Whether a replica says of another one that its directory was put back.
fn refuses(replica: &Replica, slot: u16) -> bool {
    let status = replica.status();
    let mut peers = status.peers.iter();
    peers.any(|peer| peer.slot == slot && peer.rolled_back.is_some())
}

async fn is_found_out(set: &Set, at: usize) {
    let (slot, found) = (set.sites[at].replica.status().slot, &set.sites[at].replica);
    eventually("it knows that it was put back", || {
        found.status().rolled_back.is_some()
    })
    .await;
    eventually("another one names it", || {
        let mut others = set
            .sites
            .iter()
            .filter(|site| site.replica.status().slot != slot);
        others.any(|site| refuses(&site.replica, slot))
    })
    .await;
    assert!(!found.ready());
}

/// The others go on without it, and have what it had answered.
async fn others_go_on(set: &Set, without: usize, name: &str) {
    let others = set.sites.iter().enumerate();
    for (_, site) in others.filter(|(at, site)| *at != without && !site.replica.is_witness()) {
        let name = format!("{name} at {}", site.slot());
        patiently(|| site.directory(ROOT, &name)).await.unwrap();
        assert_eq!(site.load(ROOT, "kept").await.unwrap(), b"answered");
    }
}

trait Slot {
    fn slot(&self) -> u16;
}

impl Slot for Site {
    fn slot(&self) -> u16 {
        self.replica.status().slot
    }
}

/// Rolls one member of three back to a copy that was taken while it ran.
async fn one_is_put_back(mut set: Set, at: usize) {
    let snapshot = set.sites[at].snapshot();
    set.sites[0].save(ROOT, "kept", b"answered").await.unwrap();
    set.rest().await;
    until_noted().await;
    let crashed = set.crash(at).await;
    crashed.put_back(&snapshot);
    set.revive(at, crashed).await;
    is_found_out(&set, at).await;
    others_go_on(&set, at, "later").await;
    // It says so after its next start as well, though nobody tells it again.
    let crashed = set.crash(at).await;
    set.revive(at, crashed).await;
    is_found_out(&set, at).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_of_the_views_put_back_is_refused() {
    let set = Set::failing(3).await;
    set.rest().await;
    one_is_put_back(set, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_put_back_is_refused() {
    let set = Set::failing(3).await;
    set.rest().await;
    one_is_put_back(set, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_put_back_is_refused() {
    let mut set = Set::failing(2).await;
    set.add_witness().await;
    set.rest().await;
    one_is_put_back(set, 2).await;
}

/// The copy was taken while the server stood still, and it has been started since; what others know of it is on their
/// disks, for they were all started anew meanwhile. The number of its start is one that it had before.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_met_is_known_after_a_restart_of_those_who_met_it() {
    let mut set = Set::failing(3).await;
    set.sites[0].save(ROOT, "kept", b"answered").await.unwrap();
    set.rest().await;
    let crashed = set.crash(1).await;
    let (snapshot, number) = (crashed.snapshot(), crashed.incarnation());
    set.revive(1, crashed).await;
    set.revive_until_ready(1).await;
    set.rest().await;
    for other in [0, 2] {
        set.restart(other).await;
        set.revive_until_ready(other).await;
    }
    let crashed = set.crash(1).await.started_as(number);
    crashed.put_back(&snapshot);
    set.revive(1, crashed).await;
    is_found_out(&set, 1).await;
    others_go_on(&set, 1, "later").await;
}

/// The journal has lost its last records, a moment ago at most: what the others have applied of its updates says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_a_member_lost_is_not_made_anew_over_the_others() {
    let mut set = Set::failing(3).await;
    set.sites[0].save(ROOT, "kept", b"answered").await.unwrap();
    set.rest().await;
    let snapshot = set.sites[1].snapshot();
    let made = set.sites[1].directory(ROOT, "lost").await.unwrap();
    eventually("the others have it", || {
        let status = set.sites[1].replica.status();
        status.peers.iter().all(|peer| peer.lag_updates == 0)
    })
    .await;
    let crashed = set.crash(1).await;
    crashed.put_back(&snapshot);
    set.revive(1, crashed).await;
    is_found_out(&set, 1).await;
    let again = set.sites[1].directory(ROOT, "lost");
    let again = tokio::time::timeout(Duration::from_secs(1), again).await;
    assert!(!matches!(again, Ok(Ok(_))), "{again:?}");
    // It was still deciding about the root, which waits for it until somebody says that it does not come back.
    set.sites[0].give_up(2).await;
    for other in [0, 2] {
        let found = patiently(|| set.sites[other].find(ROOT, "lost")).await;
        assert_eq!(found.unwrap().id, made);
    }
}

/// Two of three put back: the first one knows it of both. There is no majority, and nothing older is shown to anybody.
async fn two_are_put_back(mut set: Set) {
    set.rest().await;
    let snapshots = [set.sites[1].snapshot(), set.sites[2].snapshot()];
    set.sites[0].save(ROOT, "kept", b"answered").await.unwrap();
    set.rest().await;
    until_noted().await;
    let (third, second) = (set.crash(2).await, set.crash(1).await);
    second.put_back(&snapshots[0]);
    third.put_back(&snapshots[1]);
    set.revive(1, second).await;
    set.revive(2, third).await;
    for at in [1, 2] {
        is_found_out(&set, at).await;
        if set.sites[at].replica.is_witness() {
            continue;
        }
        let shown = set.sites[at].find(ROOT, "kept");
        let shown = tokio::time::timeout(Duration::from_secs(1), shown).await;
        assert!(shown.is_err() || shown.unwrap().is_err());
    }
    assert!(set.sites[0].replica.status().rolled_back.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_put_back_at_a_time_show_nothing_older() {
    two_are_put_back(Set::failing(3).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_and_the_witness_put_back_show_nothing_older() {
    let mut set = Set::failing(2).await;
    set.add_witness().await;
    two_are_put_back(set).await;
}

/// The others are gone for ever, and a copy that was put back is all that is left. On an administrator's word that one alone is the
/// set it goes on, from where it was; not together with others, who would know more.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_put_back_goes_on_when_it_alone_is_left() {
    let mut set = Set::failing(3).await;
    set.sites[1].save(ROOT, "before", b"older").await.unwrap();
    set.rest().await;
    let snapshot = set.sites[1].snapshot();
    set.sites[0].save(ROOT, "kept", b"answered").await.unwrap();
    set.rest().await;
    until_noted().await;
    let crashed = set.crash(1).await;
    crashed.put_back(&snapshot);
    set.revive(1, crashed).await;
    is_found_out(&set, 1).await;
    drop(set.crash(2).await);
    drop(set.crash(0).await);
    let crashed = set.crash(0).await;
    let store = Arc::new(crashed.store());
    let together = go_on_with(&store, &[2, 3].into()).await;
    let why = together.unwrap_err().to_string();
    assert!(why.contains("put back from an older one"), "{why}");
    go_on_with(&store, &[2].into()).await.unwrap();
    let closing = tokio::task::spawn_blocking(move || drop(store));
    closing.await.unwrap();
    set.revive(0, crashed).await;
    set.revive_until_ready(0).await;
    let alone = &set.sites[0];
    assert_eq!(alone.replica.status().rolled_back, None);
    assert_eq!(alone.load(ROOT, "before").await.unwrap(), b"older");
    patiently(|| alone.directory(ROOT, "later")).await.unwrap();
}

/// All put back to one moment, at which none of them ran: nothing contradicts anything, and the set goes on from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_whole_set_put_back_to_one_moment_goes_on() {
    let mut set = Set::failing(3).await;
    set.sites[0].save(ROOT, "kept", b"answered").await.unwrap();
    set.rest().await;
    let mut stopped = Vec::new();
    while !set.sites.is_empty() {
        stopped.push(set.crash(0).await);
    }
    let snapshots: Vec<_> = stopped.iter().map(|crashed| crashed.snapshot()).collect();
    for (at, crashed) in stopped.into_iter().enumerate() {
        set.revive(at, crashed).await;
    }
    for at in 0..3 {
        set.revive_until_ready(at).await;
    }
    patiently(|| set.sites[1].directory(ROOT, "after"))
        .await
        .unwrap();
    set.rest().await;
    let mut stopped = Vec::new();
    while !set.sites.is_empty() {
        stopped.push(set.crash(0).await);
    }
    for (crashed, snapshot) in stopped.iter().zip(&snapshots) {
        crashed.put_back(snapshot);
    }
    for (at, crashed) in stopped.into_iter().enumerate() {
        set.revive(at, crashed).await;
    }
    for at in 0..3 {
        set.revive_until_ready(at).await;
        assert!(set.sites[at].replica.status().rolled_back.is_none());
    }
    let found = patiently(|| set.sites[2].find(ROOT, "after")).await;
    assert_eq!(found.unwrap_err(), vfs::Error::NotFound);
}

/// The founder's directory was put back to a copy from before the others had joined. They were strangers to it, which it turned away before it
/// heard what they knew of it; and it took changes, alone.
#[tokio::test(flavor = "multi_thread")]
async fn the_founder_put_back_to_when_it_was_alone_is_refused() {
    let mut set = Set::failing(1).await;
    let snapshot = set.sites[0].snapshot();
    set.add().await;
    set.add().await;
    set.sites[0].save(ROOT, "kept", b"answered").await.unwrap();
    set.rest().await;
    until_noted().await;
    let crashed = set.crash(0).await;
    crashed.put_back(&snapshot);
    set.revive(0, crashed).await;
    is_found_out(&set, 0).await;
    others_go_on(&set, 0, "later").await;
}
