//! Contents here are replaced by another copy, or are worth less than they seem.

use std::sync::atomic::Ordering;

use store::ContentPiece;

use super::supplied::{has, held, hold_back, known_to_others};
use super::*;
use crate::membership::losses::completed;
use crate::replication::conversing;
use crate::state::arrivals::PUTTING_AT_ONCE;
use crate::state::wire::Completed;

/// As if one piece of a write had arrived.
async fn has_some(site: &Site, file: ObjectId, offset: u64, bytes: &'static [u8]) {
    let bytes = Bytes::from_static(bytes);
    let piece = ContentPiece::Data { offset, bytes };
    site.store.put_content(file, piece).await.unwrap();
}

/// Of three replicas the third changed a file, and is lost when the second has a part of that. The first has the previous version, which
/// replaces the second's copy. The second then lacks all of the third's change. The third believes that the part it had sent is stored there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_77_a_part_that_has_given_way_is_missing_although_more_was_missing_before() {
    let mut set = Set::failing(3).await;
    let file = set.sites[2].save(ROOT, "file", b"the old").await.unwrap();
    set.rest().await;
    known_to_others(&set, file, b"NEW ONE").await;
    has_some(&set.sites[1], file, 0, b"NEW").await;
    let third = set.crash(2).await;
    until_level(&set.sites[0]).await;
    let second = &set.sites[1];
    assert_eq!(held(second, file), b"the old");
    // The third says this after it has sent the rest, or because of an earlier request.
    for asked in [vec![], vec![(file, 0)]] {
        let files = vec![(file, u64::MAX)];
        let said = Completed {
            files,
            asked,
            ..Completed::default()
        };
        completed(second.replica.local().clone(), ReplicaSlot(3), said).await;
        assert!(has(second, file, 7, &[3]), "it is not all sent again");
    }
    set.revive(2, third).await;
    set.revive_until_ready(2).await;
    eventually("all have all", || {
        let mut sites = set.sites.iter();
        sites.all(|site| has(site, file, 7, &[]) && held(site, file) == b"NEW ONE")
    })
    .await;
    set.assert_equal().await;
}

/// Of three replicas the first is away while the second writes a file. The third changes another part of it; the second gets a part of that, and
/// the first gets nothing. What the second sends to the first is useless there, because it is older. The first asks the replica that changed the
/// file last, but that one is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_75_who_asked_for_all_of_a_file_in_vain_has_not_the_best_of_it() {
    let mut set = Set::failing(3).await;
    let file = set.sites[1]
        .save(ROOT, "file", b"0000000000")
        .await
        .unwrap();
    set.rest().await;
    let first = set.crash(0).await;
    set.sites[0].write(file, 0, b"AAAA").await.unwrap();
    eventually("the third has it", || {
        let quiet = |site: &Site| site.replica.status().controls_total == 0;
        has(&set.sites[1], file, 10, &[]) && set.sites.iter().all(quiet)
    })
    .await;
    for to in [1, 2] {
        hold_back(set.sites[1].replica.local(), to, 2 * PATIENCE);
    }
    set.sites[1].write(file, 6, b"BB").await.unwrap();
    let second_lacks = |set: &Set, at: usize| has(&set.sites[at], file, 10, &[3]);
    eventually("the second knows of it", || second_lacks(&set, 0)).await;
    has_some(&set.sites[0], file, 6, b"B").await;
    hold_back(set.sites[0].replica.local(), 1, PATIENCE / 12);
    set.revive(0, first).await;
    eventually("it knows of both", || has(&set.sites[0], file, 10, &[2, 3])).await;
    eventually("what the second has is of no use", || second_lacks(&set, 0)).await;
    eventually("the first is in the view again", || {
        let members = set.sites[1].replica.view_status().members;
        members.iter().any(|one| one.slot == 1 && one.active)
    })
    .await;
    drop(set.crash(2).await);
    until_level(&set.sites[0]).await;
    for site in &set.sites {
        assert_eq!(held(site, file), b"AAAA00B000");
    }
}

/// The second truncates a file while what it has written is on its way to the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_84_what_is_truncated_while_it_is_on_its_way_is_complete_in_the_end() {
    let set = Set::failing(3).await;
    set.rest().await;
    let (first, second) = (&set.sites[0], &set.sites[1]);
    let inbox = first.replica.local().state.inboxes.get(ReplicaSlot(2));
    let inbox = inbox.unwrap();
    let nothing = inbox.putting.acquire_many(PUTTING_AT_ONCE).await;
    let sent = &second.replica.local().state.metrics.content_bytes;
    let before = sent.load(Ordering::Relaxed);
    let file = second.save(ROOT, "file", b"written").await.unwrap();
    eventually("it is on its way", || sent.load(Ordering::Relaxed) > before).await;
    second.truncate(file, 3).await.unwrap();
    drop(nothing);
    eventually("it is complete", || has(first, file, 3, &[])).await;
    eventually("it has said so", || {
        let peers = second.replica.status().peers;
        peers.iter().all(|peer| peer.lag_files == 0)
    })
    .await;
    assert_eq!(held(first, file), b"wri");
}

/// Of three replicas the third changed a file, and is lost when the first has all of that and the second nothing. What the first reports about
/// earlier transfers says nothing about what it supplies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_78_who_has_the_best_of_a_file_may_say_what_it_had_sent_before() {
    let mut set = Set::failing(3).await;
    let file = set.sites[2].save(ROOT, "file", b"old").await.unwrap();
    set.rest().await;
    hold_back(set.sites[2].replica.local(), 2, 2 * PATIENCE);
    set.sites[2].write(file, 0, b"new").await.unwrap();
    eventually("the first has it", || {
        let is_new = has(&set.sites[0], file, 3, &[]) && held(&set.sites[0], file) == b"new";
        is_new && has(&set.sites[1], file, 3, &[3])
    })
    .await;
    hold_back(set.sites[0].replica.local(), 2, PATIENCE / 5);
    drop(set.crash(2).await);
    let second = &set.sites[1];
    let local = second.replica.local();
    eventually("all have told what they lack", || {
        let all = local.state.losses.equalling();
        let of_third = all.get(&ReplicaSlot(3));
        of_third.is_some_and(|of_third| of_third.reports.contains_key(&ReplicaSlot(1)))
    })
    .await;
    let said = Completed {
        files: vec![(file, u64::MAX)],
        ..Completed::default()
    };
    completed(local.clone(), ReplicaSlot(1), said).await;
    // By now it would have been taken for supplied.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(has(second, file, 3, &[3]), "nothing has come");
    set.sites[0].give_up(3).await;
    for site in &set.sites {
        assert_eq!(site.load(ROOT, "file").await.unwrap(), b"new");
    }
}

/// Of three replicas the third was away while the second wrote a file, and the first changes it when the second's contents are on their way to the
/// third. These give way there, and the third asks the first for all of the file. Nobody owes it anything then: it takes part, and its copy is old.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_110_a_file_that_was_asked_for_again_is_not_answered_before_it_comes() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let third = set.crash(2).await;
    let second = set.sites[1].replica.clone();
    eventually("the others go on without it", || {
        let mut members = second.view_status().members.into_iter();
        second.ready() && members.any(|member| member.slot == 3 && !member.active)
    })
    .await;
    let file = set.sites[1].save(ROOT, "file", b"new text").await.unwrap();
    eventually("the first has it", || {
        let first = &set.sites[0];
        has(first, file, 8, &[]) && first.replica.status().controls_total == 0
    })
    .await;
    hold_back(second.local(), 3, PATIENCE / 12);
    let sent = &second.local().state.metrics.content_bytes;
    let before = sent.load(Ordering::Relaxed);
    set.revive(2, third).await;
    let site = &set.sites[2];
    eventually("the third knows of it", || {
        site.store.file_size(file).is_ok()
    })
    .await;
    let inbox = site.replica.local().state.inboxes.get(ReplicaSlot(2));
    let inbox = inbox.unwrap();
    let nothing = inbox.putting.acquire_many(PUTTING_AT_ONCE).await;
    eventually("it is admitted", || {
        let mut members = second.view_status().members.into_iter();
        members.any(|member| member.slot == 3 && member.active)
    })
    .await;
    eventually("it is on its way", || sent.load(Ordering::Relaxed) > before).await;
    assert!(!site.replica.ready(), "it has everything already");
    let first = &set.sites[0];
    first.write(file, 8, b" and more").await.unwrap();
    eventually(
        "the first's change is there and its control has ended",
        || {
            let is_here = site.store.file_size(file) == Ok(17);
            is_here && first.replica.status().controls_total == 0
        },
    )
    .await;
    hold_back(first.replica.local(), 3, PATIENCE / 6);
    drop(nothing);
    eventually("it asks the first for all of it", || {
        site.store.has_given_way(ReplicaSlot(1), Some(file))
    })
    .await;
    set.revive_until_ready(2).await;
    assert_eq!(
        set.sites[2].load(ROOT, "file").await.unwrap(),
        b"new text and more"
    );
    drop(second);
    set.assert_equal().await;
}

/// Of three replicas the third was given up, and came back with a copy of what the others have. It has made nothing since. The first asks it for all
/// of files that it had made before, and has all of them afterwards, whether they come in one piece, in several ones, or in none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_113_who_has_made_nothing_since_it_was_given_up_sends_all_that_it_is_asked_for()
 {
    let mut set = Set::failing(3).await;
    let third = &set.sites[2];
    let file = third.save(ROOT, "file", b"old").await.unwrap();
    let large = vec![7; (5 << 20) / 2];
    let sizes = [3, large.len() as u64, 0];
    let all = [
        file,
        third.save(ROOT, "large", &large).await.unwrap(),
        third.save(ROOT, "empty", b"").await.unwrap(),
    ];
    set.rest().await;
    eventually("the others know that they have all of them", || {
        let known = |site: &Site| all.iter().all(|one| !site.store.is_incomplete(*one));
        set.sites.iter().all(known)
    })
    .await;
    for to in [1, 2] {
        hold_back(set.sites[2].replica.local(), to, PATIENCE);
    }
    set.sites[2].write(file, 0, b"new").await.unwrap();
    let third = set.crash(2).await;
    until_level(&set.sites[0]).await;
    set.give_up(3).await;
    set.revive(2, third).await;
    set.revive_until_ready(2).await;
    assert_eq!(set.sites[2].replica.local().engine.last_position(), 0);
    let first = &set.sites[0];
    let maker = ReplicaSlot(3);
    let through = first.store.applied(maker).unwrap();
    for one in all {
        let lacking = first.store.note_lacking((one, maker), (0, through), 0);
        lacking.await.unwrap();
    }
    let who = root();
    let old = first.files.read(vfs::AccessCheck::Open(&who), file, 0, 3);
    assert_eq!(old.await.err(), Some(Error::Delay));
    conversing::want(first.replica.local(), maker, &all);
    eventually("all is complete", || {
        let mut files = all.iter().zip(sizes);
        files.all(|(one, size)| has(first, *one, size, &[]))
    })
    .await;
    assert_eq!(first.read(file).await.unwrap(), b"old");
    set.assert_equal().await;
}
