//! Members are lost, removed, replaced, started anew and thawed, one after the other.

use std::time::Duration;

use crate::fixture::{Crashed, ROOT, Set, Site, eventually};
use replica::Durability;
use vfs::{ObjectId, ReplicaSlot};

/// The members that a replica counts, by slot.
fn members(site: &Site) -> Vec<u16> {
    let view = site.replica.view_status();
    view.members.iter().map(|member| member.slot).collect()
}

/// Waits until all go on without a lost replica, in a view that is in force.
async fn until_left(set: &Set, lost: u16) {
    eventually("all go on without the lost replica", || {
        set.sites.iter().all(|site| {
            let view = site.replica.view_status();
            let agreed = view.audit.last().map_or(0, |entry| entry.epoch);
            let mut members = view.members.iter();
            site.replica.ready()
                && view.epoch == agreed
                && members.all(|member| member.slot != lost || !member.active)
        })
    })
    .await;
}

/// Waits until nobody counts a replica any more.
async fn until_removed(set: &Set, gone: u16) {
    eventually("it is removed", || {
        set.sites
            .iter()
            .all(|site| !members(site).contains(&gone) && site.replica.ready())
    })
    .await;
}

/// Nothing that anybody is shown speaks of a replica that is gone.
fn assert_no_ghost(set: &Set, gone: u16) {
    for site in &set.sites {
        let (view, status) = (site.replica.view_status(), site.replica.status());
        assert_eq!(view.losses, []);
        assert_eq!(site.replica.frozen(), (vec![], 0));
        let slots = view.members.iter().map(|member| member.slot);
        let peers = status.peers.iter().map(|peer| peer.slot);
        let links = status.peers.iter().flat_map(|peer| &peer.links);
        let links = links.map(|link| link.to);
        let mut named = slots.chain(peers).chain(links);
        assert!(named.all(|slot| slot != gone), "{view:?} {status:?}");
    }
}

/// Both of the first two make something, so that either needs the other one.
async fn work_at_both(set: &Set, name: &str) {
    for at in 0..2 {
        let made = set.sites[at].file(ROOT, &format!("{name}-{at}")).await;
        let made = made.unwrap();
        set.sites[at].write(made, 0, b"made").await.unwrap();
        assert_eq!(set.sites[1 - at].read(made).await.unwrap(), b"made");
    }
}

/// Of three the last is lost with a control, and with contents that nobody else has; it is to be removed.
async fn lost_with_a_control() -> (Set, Crashed, ObjectId) {
    let delay = Duration::from_secs(6);
    let mut set = Set::failing_with(3, |settings| settings.data_delay = delay).await;
    let file = set.sites[0].save(ROOT, "file", b"old").await.unwrap();
    set.rest().await;
    set.sites[2].write_stably(file, b"NEW").await.unwrap();
    let first = set.sites[0].store.clone();
    eventually("the first hears of it", || first.is_incomplete(file)).await;
    drop(first);
    let third = set.crash(2).await;
    until_left(&set, 3).await;
    set.remove(3);
    (set, third, file)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_41_what_a_removed_replica_had_is_given_up_after_a_survivor_was_started_anew()
 {
    let (mut set, _third, file) = lost_with_a_control().await;
    set.restart(1).await;
    set.revive_until_ready(1).await;
    assert_eq!(members(&set.sites[0]), [1, 2, 3], "its loss is open");
    set.sites[0].give_up(3).await;
    until_removed(&set, 3).await;
    assert_eq!(set.sites[1].read(file).await.unwrap(), b"old");
    set.sites[1].write(file, 3, b" and new").await.unwrap();
    set.rest().await;
    assert_no_ghost(&set, 3);
    // Who comes later finds nothing of it either, and so does who is started anew.
    set.add().await;
    set.restart(1).await;
    set.revive_until_ready(1).await;
    work_at_both(&set, "later").await;
    set.assert_equal().await;
    assert_no_ghost(&set, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_41_a_newcomer_holds_up_no_settlement() {
    let (mut set, _third, file) = lost_with_a_control().await;
    set.add().await;
    assert_eq!(members(&set.sites[2]), [1, 2, 3, 4]);
    set.sites[1].give_up(3).await;
    until_removed(&set, 3).await;
    for site in &set.sites {
        assert_eq!(site.read(file).await.unwrap(), b"old");
    }
    work_at_both(&set, "later").await;
    set.assert_equal().await;
    assert_no_ghost(&set, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_left_nothing_is_removed_without_a_word() {
    let mut set = Set::failing(3).await;
    set.sites[2]
        .save(ROOT, "its", b"of the third")
        .await
        .unwrap();
    set.rest().await;
    drop(set.crash(2).await);
    set.remove(3);
    until_removed(&set, 3).await;
    work_at_both(&set, "later").await;
    set.assert_equal().await;
    assert_no_ghost(&set, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_42_two_of_three_go_on_after_one_was_replaced() {
    let mut set = Set::failing(3).await;
    let replica = set.sites[0].replica.clone();
    let majority = Some(Durability::Majority);
    replica.set_durability(ROOT, majority).await.unwrap();
    drop(replica);
    let file = set.sites[0].save(ROOT, "file", b"of three").await.unwrap();
    set.rest().await;
    drop(set.crash(2).await);
    set.remove(3);
    until_removed(&set, 3).await;
    set.add().await;
    set.rest().await;
    drop(set.crash(2).await);
    until_left(&set, 4).await;
    set.sites[0].write_stably(file, b"of two--").await.unwrap();
    assert_eq!(set.sites[1].read(file).await.unwrap(), b"of two--");
    work_at_both(&set, "later").await;
}

/// Of three, one that was to be the fourth never comes; then one is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_three_go_on_while_a_newcomer_does_not_answer() {
    let mut set = Set::failing(3).await;
    let file = set.sites[0].save(ROOT, "file", b"of three").await.unwrap();
    set.rest().await;
    // So slow that it does not become a member.
    set.begin_to_add().await;
    let newcomer = set.sites.pop().unwrap();
    eventually("it is configured", || members(&set.sites[0]).len() == 4).await;
    drop(newcomer);
    drop(set.crash(2).await);
    until_left(&set, 3).await;
    set.sites[0].write(file, 0, b"OF").await.unwrap();
    assert_eq!(set.sites[1].read(file).await.unwrap(), b"OF three");
    work_at_both(&set, "later").await;
}

/// Of three one is away, and far more is changed than is kept for anybody: in the end no more is
/// remembered than what is kept, and the replica that was away takes a whole copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_43_what_is_remembered_does_not_grow_while_somebody_is_away() {
    const KEPT: usize = 40;
    let mut set = Set::failing_with(3, |settings| settings.kept_updates = KEPT as u64).await;
    let directory = set.sites[0].directory(ROOT, "work").await.unwrap();
    let stays = set.sites[0]
        .save(directory, "stays", b"stays")
        .await
        .unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    until_left(&set, 3).await;
    for round in 0..12 {
        for number in 0..20 {
            let name = format!("file-{number}");
            let file = set.sites[0]
                .save(directory, &name, b"contents")
                .await
                .unwrap();
            set.sites[0].truncate(file, 3).await.unwrap();
            if round < 11 {
                set.sites[0].remove(directory, &name).await.unwrap();
            }
        }
        set.sites[0].truncate(stays, 2).await.unwrap();
        set.sites[0].write(stays, 0, b"stays").await.unwrap();
    }
    let (replica, store) = (set.sites[0].replica.clone(), set.sites[0].store.clone());
    eventually("nothing is remembered for it", || {
        replica.status().kept_entries == 0 && store.unshipped().unwrap().is_empty()
    })
    .await;
    drop((replica, store));
    set.revive(2, third).await;
    set.revive_until_ready(2).await;
    let made = set.sites[2].save(directory, "again", b"of the third").await;
    made.unwrap();
    set.assert_equal().await;
}

/// The same of one that is removed: its accounts go with it, however much it lacked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_43_what_is_remembered_goes_with_a_removed_replica() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    drop(set.crash(2).await);
    until_left(&set, 3).await;
    for number in 0..20 {
        let name = format!("file-{number}");
        set.sites[0].save(ROOT, &name, b"contents").await.unwrap();
    }
    set.remove(3);
    until_removed(&set, 3).await;
    for site in &set.sites {
        let (replica, store) = (site.replica.clone(), site.store.clone());
        eventually("nothing is remembered for it", || {
            replica.status().kept_entries == 0 && store.unshipped().unwrap().is_empty()
        })
        .await;
    }
    set.assert_equal().await;
    assert_no_ghost(&set, 3);
}

/// Whether the list of members at a site has a replica as one that was removed.
fn knows_removed(site: &Site, slot: u16) -> bool {
    let list = site.set_files().member_list().unwrap();
    list.member(slot).is_some_and(|member| member.revoked)
}

/// The keeper of the authority has removed a member, and is back when the others have gone on without either.
async fn back_after_it_had_removed_the_fifth(mut set: Set, keeper: Crashed) {
    set.revive(0, keeper).await;
    set.revive_until_ready(0).await;
    until_removed(&set, 5).await;
    work_at_both(&set, "without the fifth").await;
    set.add().await;
    work_at_both(&set, "with the sixth").await;
    set.assert_equal().await;
    assert_no_ghost(&set, 5);
}

/// The others part with both; who was removed is a member until the keeper is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keeper_is_lost_when_the_others_have_heard_whom_it_removes() {
    let mut set = Set::failing(5).await;
    set.sites[4]
        .save(ROOT, "its", b"of the fifth")
        .await
        .unwrap();
    set.rest().await;
    set.remove(5);
    eventually("the others know it", || {
        let mut others = set.sites[1..4].iter();
        others.all(|site| knows_removed(site, 5)) && set.sites[4].replica.is_removed()
    })
    .await;
    let keeper = set.crash(0).await;
    drop(set.crash(3).await);
    for lost in [1, 5] {
        until_left(&set, lost).await;
    }
    work_at_both(&set, "without both").await;
    back_after_it_had_removed_the_fifth(set, keeper).await;
}

/// Nobody has heard of it, so the fifth takes part until the keeper is back, and does when that says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keeper_is_lost_before_anybody_has_heard_whom_it_removes() {
    let mut set = Set::failing(5).await;
    set.sites[4]
        .save(ROOT, "its", b"of the fifth")
        .await
        .unwrap();
    set.rest().await;
    let keeper = set.crash(0).await;
    keeper.set_files().revoke(ReplicaSlot(5)).unwrap();
    until_left(&set, 1).await;
    set.sites[3].save(ROOT, "its", b"more of it").await.unwrap();
    eventually("nothing of it would be frozen", || {
        let mut sites = set.sites.iter();
        sites.all(|site| site.replica.status().controls_total == 0)
    })
    .await;
    set.revive(0, keeper).await;
    let fifth = set.sites[4].replica.clone();
    eventually("it is told", || fifth.is_removed()).await;
    drop(fifth);
    drop(set.crash(4).await);
    let keeper = set.crash(0).await;
    back_after_it_had_removed_the_fifth(set, keeper).await;
}
