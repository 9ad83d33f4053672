//! Replicas that fail: what freezes, what others take over, what is given up, and how they come back.

use std::time::Duration;

use crate::fixture::{PATIENCE, ROOT, Set, Site, eventually, name, patiently, root};
use replica::{Durability, Settings, Stage};
use vfs::{Creation, Error, NewObject, SetAttributes};

/// Long enough for a view without the lost replica, with the short leases of these tests.
async fn until_left(set: &Set, at: usize, lost: u16) {
    let replica = set.sites[at].replica.clone();
    eventually("the others go on without the lost replica", || {
        let view = replica.view_status();
        let mut members = view.members.iter();
        let agreed = view.audit.last().map_or(0, |entry| entry.epoch);
        members.any(|member| member.slot == lost && !member.active)
            && replica.ready()
            && view.takes_part
            && view.epoch == agreed
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_replica_controls_freezes_and_thaws_when_it_is_back() {
    let mut set = Set::failing(3).await;
    let directory = set.sites[0].directory(ROOT, "theirs").await.unwrap();
    let other = set.sites[1].directory(ROOT, "free").await.unwrap();
    let file = set.sites[0].file(directory, "file").await.unwrap();
    set.rest().await;
    // An open file keeps its control.
    set.sites[0]
        .open(file, "a writer", crate::fixture::WRITE)
        .await
        .unwrap();
    set.sites[0]
        .write(file, 0, b"written and lost")
        .await
        .unwrap();
    let lost = set.crash(0).await;
    until_left(&set, 0, 1).await;
    let (frozen, _) = set.sites[0].replica.frozen();
    assert!(frozen.iter().any(|control| control.slot == 1), "{frozen:?}");
    // Everything else goes on.
    set.sites[0].file(other, "made meanwhile").await.unwrap();
    assert_eq!(
        set.sites[0].try_read(file, Duration::from_secs(2)).await,
        Err(Error::Delay),
        "only the lost replica knows what it wrote last"
    );
    set.revive(0, lost).await;
    eventually("it takes part again", || set.sites[0].replica.ready()).await;
    let read = set.sites[1].read(file).await.unwrap();
    assert_eq!(read, b"written and lost");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_frozen_after_a_replica_has_stopped_in_order() {
    let mut set = Set::failing(3).await;
    let directory = set.sites[0].directory(ROOT, "theirs").await.unwrap();
    let file = set.sites[0].file(directory, "file").await.unwrap();
    // An open file keeps its control, until its server stops.
    let writer = set.sites[0]
        .open(file, "a writer", crate::fixture::WRITE)
        .await;
    writer.unwrap();
    set.sites[0].write(file, 0, b"handed over").await.unwrap();
    assert!(
        set.sites[0].replica.stop(PATIENCE).await,
        "the others have everything, and know that nothing is controlled there"
    );
    let stopped = set.crash(0).await;
    until_left(&set, 0, 1).await;
    let (frozen, _) = set.sites[0].replica.frozen();
    assert!(frozen.is_empty(), "{frozen:?}");
    assert_eq!(set.sites[0].read(file).await.unwrap(), b"handed over");
    set.sites[1].write(file, 0, b"their turn!").await.unwrap();
    set.sites[1].file(directory, "another").await.unwrap();
    set.revive(0, stopped).await;
    eventually("it takes part again", || set.sites[0].replica.ready()).await;
    assert_eq!(set.sites[0].read(file).await.unwrap(), b"their turn!");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_majority_the_others_take_over_and_nothing_answered_is_lost() {
    let mut set = Set::failing(3).await;
    let durability = Some(Durability::Majority);
    set.sites[0]
        .replica
        .set_durability(ROOT, durability)
        .await
        .unwrap();
    let directory = set.sites[0].directory(ROOT, "shared").await.unwrap();
    let file = set.sites[0].file(directory, "file").await.unwrap();
    set.sites[0].write_stably(file, b"answered").await.unwrap();
    let lost = set.crash(0).await;
    until_left(&set, 0, 1).await;
    let read = set.sites[1].read(file).await.unwrap();
    assert_eq!(read, b"answered");
    set.sites[0].write_stably(file, b"goes on!").await.unwrap();
    assert_eq!(set.sites[1].read(file).await.unwrap(), b"goes on!");
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    assert_eq!(set.sites[0].read(file).await.unwrap(), b"goes on!");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_under_majority_after_its_primary_was_lost_is_not_taken_over() {
    let mut set = Set::failing(3).await;
    let directory = set.sites[0].directory(ROOT, "theirs").await.unwrap();
    let file = set.sites[0].file(directory, "file").await.unwrap();
    set.sites[0].write_stably(file, b"old").await.unwrap();
    set.rest().await;
    let open = set.sites[0]
        .open(file, "a writer", crate::fixture::WRITE)
        .await;
    open.unwrap();
    set.sites[0].write_stably(file, b"answered").await.unwrap();
    let lost = set.crash(0).await;
    until_left(&set, 0, 1).await;
    let replica = set.sites[0].replica.clone();
    let asked = patiently(|| replica.set_durability(ROOT, Some(Durability::Majority)));
    asked.await.unwrap();
    eventually("nothing else is in the way of going on", || {
        let losses = replica.view_status().losses;
        losses.iter().any(|loss| loss.ready_to_settle)
    })
    .await;
    assert_eq!(
        set.sites[0].try_read(file, Duration::from_secs(2)).await,
        Err(Error::Delay),
        "it was answered when the lost replica alone had to have it"
    );
    drop(replica);
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    assert_eq!(set.sites[1].read(file).await.unwrap(), b"answered");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_is_kept_aside_where_it_was_made() {
    let mut set = Set::failing(3).await;
    let directory = set.sites[0].directory(ROOT, "theirs").await.unwrap();
    let file = set.sites[0].file(directory, "file").await.unwrap();
    set.sites[0].write(file, 0, b"old").await.unwrap();
    set.rest().await;
    set.sites[0]
        .write(file, 0, b"new and never sent")
        .await
        .unwrap();
    let lost = set.crash(0).await;
    until_left(&set, 0, 1).await;
    let answer = set.sites[0].replica.thaw(2, "a test").await;
    assert!(answer.unwrap_err().contains("takes part"));
    set.give_up(1).await;
    set.sites[0].write(file, 0, b"mine").await.unwrap();
    set.sites[1].read(file).await.unwrap();
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    let aside = set.sites[0].recovered();
    assert_eq!(aside.len(), 1, "{aside:?}");
    let found = set.sites[0].restored(&aside[0].label, file);
    assert_eq!(String::from_utf8(found).unwrap(), "new and never sent");
    set.assert_equal().await;
}

/// It has dealt with what was decided and has another's copy, but not all contents yet, when it is killed. Nothing that it
/// made before is to be handed over, and nobody would take it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_given_up_comes_back_though_it_is_killed_with_its_new_copy() {
    let slow = |settings: &mut Settings| settings.return_bytes_per_second = Some(64 << 10);
    let mut set = Set::failing_with(3, slow).await;
    let file = set.sites[2].file(ROOT, "theirs").await.unwrap();
    set.sites[2].write(file, 0, b"old").await.unwrap();
    set.rest().await;
    set.sites[2].write(file, 0, b"never sent").await.unwrap();
    let lost = set.crash(2).await;
    until_left(&set, 0, 3).await;
    for number in 0..8 {
        let missed = format!("missed-{number}");
        let missed = set.sites[0].file(ROOT, &missed).await.unwrap();
        let bytes = vec![number; 64 << 10];
        set.sites[0].write(missed, 0, &bytes).await.unwrap();
    }
    set.give_up(3).await;
    set.revive(2, lost).await;
    let copying = async {
        while set.sites[2].recovered().is_empty() || !is_being_filled(&set.sites[2]) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if set.sites[2].replica.has_left().borrow().is_some() {
                let anew = set.crash(2).await;
                set.revive(2, anew).await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, copying).await.unwrap();
    assert!(!set.sites[2].replica.view_status().takes_part);
    let killed = set.crash(2).await;
    set.revive(2, killed).await;
    set.revive_until_ready(2).await;
    set.assert_equal().await;
}

/// Whether a replica has all rows of a copy, and lacks contents.
fn is_being_filled(site: &Site) -> bool {
    let rejoining = site.replica.status().rejoining;
    rejoining.is_some_and(|view| view.stage == Stage::Contents && view.objects_left > 0)
}

/// The fifth replica is away while the first makes something, is given up, and comes back with another's copy. It lacks
/// what the first made and has no record of any more, and nobody remembers up to where that was kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_away_while_somebody_was_given_up_misses_nothing_when_that_one_is_back() {
    let mut set = Set::failing(5).await;
    let directory = set.sites[0].directory(ROOT, "theirs").await.unwrap();
    let file = set.sites[0].file(directory, "file").await.unwrap();
    set.sites[0].write(file, 0, b"old").await.unwrap();
    set.rest().await;
    let away = set.crash(4).await;
    until_left(&set, 0, 5).await;
    let missed = set.sites[0].file(directory, "missed").await.unwrap();
    let others = [1, 2, 3].map(|at| set.sites[at].store.clone());
    eventually("the others have it", || {
        others.iter().all(|store| store.file_size(missed).is_ok())
    })
    .await;
    drop(others);
    set.sites[0].write(file, 0, b"never sent").await.unwrap();
    let lost = set.crash(0).await;
    until_left(&set, 0, 1).await;
    set.give_up(1).await;
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    set.revive(4, away).await;
    set.revive_until_ready(4).await;
    set.sites[4].find(directory, "missed").await.unwrap();
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_restarted_one_after_another_while_clients_of_the_others_work() {
    let mut set = Set::of(3).await;
    for at in 0..3 {
        let files = set.sites[(at + 1) % 3].files.clone();
        let work = tokio::spawn(async move {
            for number in 0..40 {
                let made = format!("made-{at}-{number}");
                let made = patiently(|| async {
                    let (new, set) = (
                        NewObject::File(Creation::Unchecked),
                        SetAttributes::default(),
                    );
                    files.create(&root(), ROOT, &name(&made), new, &set).await
                });
                made.await.unwrap();
            }
        });
        set.restart(at).await;
        let sites = &set.sites;
        eventually("all take part", || {
            sites.iter().all(|site| site.replica.ready())
        })
        .await;
        work.await.unwrap();
    }
    for at in 0..3 {
        for number in 0..40 {
            set.sites[at]
                .find(ROOT, &format!("made-0-{number}"))
                .await
                .unwrap();
        }
    }
    set.assert_equal().await;
}
