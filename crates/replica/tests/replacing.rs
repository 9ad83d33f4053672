//! One replica takes the place of another one, where too few would be left in between: the second of three is lost while
//! the first that was lost is on its way back.

use std::time::Duration;

use crate::fixture::{Crashed, ROOT, Set, Site, eventually};
use replica::{Durability, Settings};
use store::ContentPiece;
use vfs::{Error, ObjectId};

const MIB: usize = 1 << 20;

/// So long that it takes many pieces.
const LENGTH: usize = 64 * MIB;

/// Waits until a replica follows a view without another one and may answer.
async fn until_left(site: &Site, lost: u16) {
    let replica = site.replica.clone();
    eventually("the others go on without the lost replica", || {
        let view = replica.view_status();
        let mut members = view.members.iter();
        let agreed = view.audit.last().map_or(0, |entry| entry.epoch);
        members.any(|member| member.slot == lost && !member.active)
            && replica.ready()
            && view.epoch == agreed
    })
    .await;
}

/// Three replicas with a file of these contents, of which the second is lost.
async fn without_the_second(
    change: impl FnOnce(&mut Settings),
    durability: Durability,
    contents: &[u8],
) -> (Set, Crashed, ObjectId) {
    let mut set = Set::failing_with(3, change).await;
    set.sites[0]
        .replica
        .set_durability(ROOT, Some(durability))
        .await
        .unwrap();
    // Made by the one that is lost: what it notes about its own changes must not be taken for later ones.
    let directory = set.sites[1].directory(ROOT, "shared").await.unwrap();
    let file = set.sites[1].file(directory, "file").await.unwrap();
    for (at, bytes) in contents.chunks(MIB).enumerate() {
        let offset = (at * MIB) as u64;
        set.sites[1].write(file, offset, bytes).await.unwrap();
    }
    set.rest().await;
    // What has come before is certain to be on its disk.
    set.sites[1].file(directory, "last").await.unwrap();
    set.rest().await;
    let second = set.crash(1).await;
    for site in &set.sites {
        until_left(site, 2).await;
    }
    (set, second, file)
}

/// The third replica is lost too, and the second comes back and takes its place.
async fn replace(set: &mut Set, second: Crashed) -> Crashed {
    let third = set.crash(1).await;
    take_place(set, (1, second), (2, 3)).await;
    third
}

/// A replica that is back at a place of the set is admitted in the same step in which another one is excluded.
async fn take_place(set: &mut Set, (at, crashed): (usize, Crashed), (comes, lost): (u16, u16)) {
    set.revive(at, crashed).await;
    set.revive_until_ready(at).await;
    for site in &set.sites {
        until_left(site, lost).await;
    }
    let audit = set.sites[0].replica.view_status().audit;
    let words = format!("excluded replica {lost} and admitted replica {comes} in one step");
    let replaced = audit.iter().any(|entry| entry.what.starts_with(&words));
    assert!(replaced, "{audit:?}");
}

/// Both of the first two replicas make something, so that either needs the other one.
async fn work_at_both(set: &Set) {
    for at in 0..2 {
        let name = format!("made-at-{at}");
        let made = set.sites[at].file(ROOT, &name).await.unwrap();
        set.sites[at].write(made, 0, b"made").await.unwrap();
        assert_eq!(set.sites[1 - at].read(made).await.unwrap(), b"made");
    }
}

/// Waits until the third has brought everything to the first, and knows it.
async fn until_level(set: &Set) {
    let (first, third) = (&set.sites[0].replica, &set.sites[1].replica);
    eventually("everything is with the other one, which knows it", || {
        let status = third.status();
        let mut peers = status.peers.iter();
        let other = peers.find(|peer| peer.slot == 1).unwrap();
        let controls = status.controls_total + first.status().controls_total;
        controls == 0 && other.lag_updates == 0 && other.lag_files == 0
    })
    .await;
}

/// The third replica comes back.
async fn return_of_the_third(set: &mut Set, third: Crashed) {
    set.revive(2, third).await;
    set.revive_until_ready(2).await;
}

async fn assert_reads(set: &Set, file: ObjectId, wanted: &[u8]) {
    for (at, site) in set.sites.iter().enumerate() {
        let read = site.read(file).await.unwrap();
        let (read, wanted) = (
            String::from_utf8_lossy(&read),
            String::from_utf8_lossy(wanted),
        );
        assert_eq!(read, wanted, "at site {at}");
    }
}

/// The bytes of a file as they lie in one copy.
fn bytes_in(site: &Site, file: ObjectId) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in site.store.content(file, 0, u64::MAX).unwrap() {
        match piece {
            ContentPiece::Data { bytes: more, .. } => bytes.extend_from_slice(&more),
            ContentPiece::Hole(hole) => bytes.resize(bytes.len() + hole.length as usize, 0),
        }
    }
    bytes
}

/// It was said that it does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_removed_as_another_one_comes_back_is_said_to_be_removed() {
    let (mut set, second, _) = without_the_second(|_| {}, Durability::Majority, b"contents").await;
    set.remove(3);
    replace(&mut set, second).await;
    let view = set.sites[0].replica.view_status();
    let words = "in one step: it is removed from the set";
    let said = view.audit.iter().any(|entry| entry.what.ends_with(words));
    assert!(said, "{:?}", view.audit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_back_takes_the_place_of_one_that_had_sent_everything() {
    let (mut set, second, file) =
        without_the_second(|_| {}, Durability::Relaxed, b"old contents everywhere").await;
    set.sites[1].write_stably(file, b"OLD").await.unwrap();
    let directory = set.sites[1].find(ROOT, "shared").await.unwrap().id;
    let more = set.sites[1]
        .save(directory, "more", b"of the third")
        .await
        .unwrap();
    until_level(&set).await;
    let third = replace(&mut set, second).await;
    assert_eq!(set.sites[0].replica.frozen(), (vec![], 0));
    assert_reads(&set, file, b"OLD contents everywhere").await;
    assert_reads(&set, more, b"of the third").await;
    work_at_both(&set).await;
    set.sites[1].write(file, 0, b"New").await.unwrap();
    return_of_the_third(&mut set, third).await;
    assert_reads(&set, file, b"New contents everywhere").await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_majority_nothing_that_was_answered_is_lost_with_two_of_three() {
    let (mut set, second, file) =
        without_the_second(|_| {}, Durability::Majority, b"old contents everywhere").await;
    set.sites[1].write_stably(file, b"answered").await.unwrap();
    let third = replace(&mut set, second).await;
    assert_reads(&set, file, b"answeredents everywhere").await;
    work_at_both(&set).await;
    set.sites[1].write_stably(file, b"goes on!").await.unwrap();
    return_of_the_third(&mut set, third).await;
    assert_reads(&set, file, b"goes on!ents everywhere").await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_back_takes_the_place_of_one_that_was_lost_before_it_had_reported() {
    let mut set = Set::failing_with(3, |_| {}).await;
    let directory = set.sites[0].directory(ROOT, "shared").await.unwrap();
    let file = set.sites[2]
        .save(directory, "file", b"of the third")
        .await
        .unwrap();
    set.rest().await;
    let second = set.crash(1).await;
    let first = set.sites[0].replica.clone();
    let decided = |what: &str| {
        let audit = first.view_status().audit;
        audit.iter().any(|entry| entry.what.starts_with(what))
    };
    eventually("it is decided to go on without the second", || {
        decided("excluded replica 2")
    })
    .await;
    // The view is not in force before what was promised to the second has run out.
    let before = first.view_status();
    assert_eq!(before.audit.last().unwrap().epoch, before.epoch + 1);
    drop(first);
    let third = replace(&mut set, second).await;
    work_at_both(&set).await;
    return_of_the_third(&mut set, third).await;
    assert_reads(&set, file, b"of the third").await;
    set.assert_equal().await;
}

/// The third replica has changed the file, and nothing of that has come.
async fn lost_before_contents() -> (Set, Crashed, ObjectId) {
    let delay = Duration::from_secs(6);
    let (mut set, second, file) = without_the_second(
        |settings| settings.data_delay = delay,
        Durability::Relaxed,
        b"old",
    )
    .await;
    // Stably, or the crash might take it.
    let newer = b"written and lost";
    set.sites[1].write_stably(file, newer).await.unwrap();
    let first = set.sites[0].store.clone();
    eventually("the first hears of it", || first.is_incomplete(file)).await;
    drop(first);
    let third = replace(&mut set, second).await;
    work_at_both(&set).await;
    (set, third, file)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_lost_one_brings_back_is_not_mixed_with_what_the_others_had() {
    let (mut set, third, file) = lost_before_contents().await;
    let replica = set.sites[1].replica.clone();
    eventually("both have the same of it", || {
        let losses = replica.view_status().losses;
        losses
            .iter()
            .any(|loss| loss.slot == 3 && loss.ready_to_settle)
    })
    .await;
    drop(replica);
    return_of_the_third(&mut set, third).await;
    assert_reads(&set, file, b"written and lost").await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_lost_one_alone_had_is_given_up_for_the_version_before() {
    let (mut set, third, file) = lost_before_contents().await;
    set.sites[0].give_up(3).await;
    assert_reads(&set, file, b"old").await;
    set.sites[1].write(file, 3, b" and new").await.unwrap();
    return_of_the_third(&mut set, third).await;
    assert_reads(&set, file, b"old and new").await;
    assert_eq!(set.sites[2].recovered().len(), 1, "its version is kept");
    set.assert_equal().await;
}

/// The third replica was lost when the first had got a part of what it had written over the file, and not all. On a
/// machine where all arrives at once it is tried again.
async fn lost_amid_contents() -> (Set, Crashed, ObjectId) {
    for _ in 0..8 {
        let (mut set, second, file) = without_the_second(
            |settings| settings.peer.data_window_bytes = 2 << 20,
            Durability::Relaxed,
            &vec![b'o'; LENGTH],
        )
        .await;
        // At once: of several writes the first ones could come whole.
        let bytes = vec![b'n'; LENGTH];
        set.sites[1].write_stably(file, &bytes).await.unwrap();
        let first = set.sites[0].store.clone();
        eventually("some of it arrives", || {
            let pieces = first.content(file, 0, 1).unwrap();
            matches!(&pieces[..], [ContentPiece::Data { bytes, .. }] if bytes[0] == b'n')
        })
        .await;
        drop(first);
        let third = replace_amid(&mut set, second, file).await;
        if let Some(third) = third {
            return (set, third, file);
        }
    }
    panic!("all contents arrive before a replica can be stopped");
}

async fn replace_amid(set: &mut Set, second: Crashed, file: ObjectId) -> Option<Crashed> {
    let third = set.crash(1).await;
    let first = &set.sites[0];
    if !first.store.is_incomplete(file) || !bytes_in(first, file).contains(&b'o') {
        return None;
    }
    take_place(set, (1, second), (2, 3)).await;
    Some(third)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_which_a_part_had_come_is_the_version_before_or_refused_and_never_a_mixture() {
    let (mut set, third, file) = lost_amid_contents().await;
    set.sites[0].give_up(3).await;
    for site in &set.sites {
        match site.read(file).await {
            Ok(read) => assert!(read.iter().all(|byte| *byte == b'o'), "a mixture is read"),
            // Its crash has made the returned one forget that what it has is whole.
            Err(error) => assert!(matches!(error, Error::Io(_)), "{error:?}"),
        }
    }
    set.sites[0].truncate(file, 0).await.unwrap();
    set.sites[0].write(file, 0, b"anew").await.unwrap();
    work_at_both(&set).await;
    return_of_the_third(&mut set, third).await;
    assert_reads(&set, file, b"anew").await;
    assert_eq!(set.sites[2].recovered().len(), 1, "its version is kept");
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_which_a_part_had_come_is_whole_when_the_lost_one_is_back() {
    let (mut set, third, file) = lost_amid_contents().await;
    work_at_both(&set).await;
    return_of_the_third(&mut set, third).await;
    set.rest().await;
    for site in &set.sites {
        assert!(bytes_in(site, file).iter().all(|byte| *byte == b'n'));
    }
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_was_replaced_while_one_was_away_does_not_come_back_with_it() {
    let delay = Duration::from_secs(3);
    let (mut set, second, file) = without_the_second(
        |settings| settings.data_delay = delay,
        Durability::Relaxed,
        b"the oldest",
    )
    .await;
    // This one reaches the first whole.
    set.sites[1]
        .write_stably(file, b"the middle")
        .await
        .unwrap();
    let first = set.sites[0].store.clone();
    eventually("the first hears of it", || first.is_incomplete(file)).await;
    eventually("the first has it", || !first.is_incomplete(file)).await;
    // Of this one nothing comes.
    set.sites[1]
        .write_stably(file, b"the newest")
        .await
        .unwrap();
    eventually("the first hears of it", || first.is_incomplete(file)).await;
    drop(first);
    let third = replace(&mut set, second).await;
    set.sites[1].give_up(3).await;
    assert_reads(&set, file, b"the middle").await;
    return_of_the_third(&mut set, third).await;
    assert_reads(&set, file, b"the middle").await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_five_takes_the_place_of_another_when_only_two_are_left() {
    let mut set = Set::failing(5).await;
    let file = set.sites[4].file(ROOT, "file").await.unwrap();
    set.sites[4].write_stably(file, b"of five").await.unwrap();
    set.rest().await;
    let mut away = Vec::new();
    for lost in [5, 4] {
        away.push(set.crash(usize::from(lost) - 1).await);
        for site in &set.sites {
            until_left(site, lost).await;
        }
    }
    set.sites[0].write_stably(file, b"of 3").await.unwrap();
    let second = set.crash(1).await;
    let (fourth, fifth) = (away.pop().unwrap(), away.pop().unwrap());
    take_place(&mut set, (2, fourth), (4, 2)).await;
    assert_reads(&set, file, b"of 3ive").await;
    work_at_both(&set).await;
    for (at, crashed) in [(3, second), (4, fifth)] {
        set.revive(at, crashed).await;
        set.revive_until_ready(at).await;
    }
    assert_reads(&set, file, b"of 3ive").await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_back_takes_the_place_of_the_witness() {
    let mut set = Set::failing(2).await;
    set.add_witness().await;
    let file = set.sites[1].file(ROOT, "file").await.unwrap();
    set.sites[1].write_stably(file, b"of both").await.unwrap();
    set.rest().await;
    let second = set.crash(1).await;
    until_left(&set.sites[0], 2).await;
    set.sites[0].write_stably(file, b"of one").await.unwrap();
    let witness = replace(&mut set, second).await;
    assert_reads(&set, file, b"of oneh").await;
    work_at_both(&set).await;
    set.revive(2, witness).await;
    let replica = set.sites[0].replica.clone();
    eventually("the witness is back in the view", || {
        let view = replica.view_status();
        view.members.iter().all(|member| member.active)
    })
    .await;
    set.assert_equal().await;
}

/// The third was removed while it took part and the second was away. Started anew after it had heard of that, the second found
/// the third in no list and did not follow its stream, so that it never had what its place asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_back_takes_the_place_of_one_that_was_removed() {
    let (mut set, second, file) =
        without_the_second(|_| {}, Durability::Relaxed, b"old contents").await;
    set.sites[1].write_stably(file, b"OLD").await.unwrap();
    until_level(&set).await;
    drop(set.crash(1).await);
    set.remove(3);
    // What it would learn when it calls.
    let list = set.founder().member_list().unwrap();
    second.set_files().learn(&list).unwrap();
    take_place(&mut set, (1, second), (2, 3)).await;
    eventually("the third is gone", || {
        let mut views = set.sites.iter().map(|site| site.replica.view_status());
        views.all(|view| view.members.iter().all(|member| member.slot != 3))
    })
    .await;
    assert_reads(&set, file, b"OLD contents").await;
    work_at_both(&set).await;
    set.assert_equal().await;
}
