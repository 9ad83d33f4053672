//! Replicas that come back: what both sides say of how far they are, and that nothing is done twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::fixture::{Crashed, PATIENCE, ROOT, Set, eventually, root};
use replica::{RejoinView, Settings, Stage};
use store::ContentPiece;
use vfs::{AccessCheck, Error, Stability};

/// How many files are missed, and of which size.
const FEW: (usize, usize) = (24, 128 << 10);

/// Too many for a replica that lacks them to be admitted.
const MANY: (usize, usize) = (120, 16 << 10);

/// Slow enough that a test sees what happens meanwhile.
const SLOW: u64 = 64 << 10;

/// What was changed no longer ago keeps nobody outside.
const LATELY: Duration = Duration::from_secs(3);

/// So long a change rests before its contents are sent, where that is to show.
const RESTS: Duration = Duration::from_secs(1);

/// Why a replica starts anew that lacks what nobody sends it.
const NEEDS_COPY: &str = "it needs a whole copy of the tree";

/// How long a slow return may take until something is seen of it.
const LONG: Duration = Duration::from_secs(120);

/// Three replicas that answer each other only after two such ways, and elect nobody before that. The test makes the line slow.
async fn far_apart(one_way: Duration) -> Set {
    Set::failing_with(3, |settings| {
        settings.views.heartbeat = 3 * one_way;
        settings.views.election_min = 6 * one_way;
        settings.views.election_max = 9 * one_way;
    })
    .await
}

/// Three replicas of which each sends a returning one little in a second: any of them may supply it.
async fn slow_suppliers(change: impl FnOnce(&mut Settings)) -> Set {
    Set::failing_with(3, |settings| {
        settings.return_bytes_per_second = Some(SLOW);
        change(settings);
    })
    .await
}

/// Starts the first two replicas again, one after the other, with this limit for what they send.
async fn limit(set: &mut Set, bytes_per_second: Option<u64>) {
    for at in 0..2 {
        let crashed = set.crash(at).await;
        let crashed = crashed.with(|settings| settings.return_bytes_per_second = bytes_per_second);
        set.revive(at, crashed).await;
        let sites = &set.sites[..2];
        eventually("both take part", || {
            sites.iter().all(|site| site.replica.ready())
        })
        .await;
    }
}

/// The third replica goes, and the first gets this many files without it.
async fn miss(set: &mut Set, (files, length): (usize, usize)) -> Crashed {
    let directory = set.sites[0].directory(ROOT, "made").await.unwrap();
    let replica = set.sites[0].replica.clone();
    let before = replica.view_status().epoch;
    let away = set.crash(2).await;
    // Agreed is not enough: a replica that still follows the previous view sends as fast as ever.
    eventually("the others go on without it", || {
        let status = replica.view_status();
        let gone = status
            .members
            .iter()
            .any(|member| member.slot == 3 && !member.active);
        status.epoch > before && gone && replica.ready()
    })
    .await;
    for number in 0..files {
        let name = format!("file-{number}");
        let file = set.sites[0].file(directory, &name).await.unwrap();
        let bytes = vec![number as u8; length];
        set.sites[0].write(file, 0, &bytes).await.unwrap();
    }
    tokio::time::sleep(LATELY).await;
    away
}

/// More files than anybody may lack who is admitted were written all the time, each again before
/// the last write had arrived: a replica that had been away stayed away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_written_all_the_time_keep_nobody_away() {
    let one_way = Duration::from_millis(150);
    let mut set = far_apart(one_way).await;
    let mut busy = Vec::new();
    for number in 0..80 {
        let name = format!("busy-{number}");
        busy.push(set.sites[0].save(ROOT, &name, b"first").await.unwrap());
    }
    set.rest().await;
    let third = set.crash(2).await;
    let replica = set.sites[0].replica.clone();
    eventually("the others go on without it", || {
        let members = replica.view_status().members;
        replica.ready()
            && members
                .iter()
                .any(|member| member.slot == 3 && !member.active)
    })
    .await;
    drop(replica);
    set.cable.slow(4 << 20, one_way);
    let (files, over) = (set.sites[0].files.clone(), Arc::new(AtomicBool::new(false)));
    let writer = {
        let over = over.clone();
        tokio::spawn(async move {
            let mut written = 0_u64;
            while !over.load(Ordering::Relaxed) {
                let file = busy[written as usize % busy.len()];
                let who = root();
                let bytes = written.to_be_bytes().to_vec().into();
                let by = AccessCheck::Open(&who);
                // Who is told to come again comes again with the next round.
                let answer = files.write(by, file, 0, bytes, Stability::Unstable).await;
                assert!(matches!(answer, Ok(_) | Err(Error::Delay)), "{answer:?}");
                written += 1;
                tokio::task::yield_now().await;
            }
        })
    };
    tokio::time::sleep(LATELY).await;
    set.revive(2, third).await;
    set.revive_until_ready(2).await;
    over.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    set.cable.slow(1 << 30, Duration::ZERO);
    set.assert_equal().await;
}

/// What the third replica, and one that supplies it, say of its return.
fn views(set: &Set) -> Option<(RejoinView, RejoinView)> {
    let own = set.sites[2].replica.status().rejoining?;
    let supplier = set.sites[..2].iter().find_map(|site| {
        let peers = site.replica.status().peers;
        let third = peers.into_iter().find(|peer| peer.slot == 3)?;
        third.rejoining.filter(|view| view.stage == own.stage)
    });
    Some((own, supplier?))
}

/// Waits for something of a slow return, while the third replica is started anew as often as it has to be.
async fn in_time(set: &mut Set, what: &str, fact: impl Fn(&Set) -> bool) {
    let waiting = async {
        while !fact(set) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if set.sites[2].replica.has_left().borrow().is_some() {
                let crashed = set.crash(2).await;
                set.revive(2, crashed).await;
            }
        }
    };
    let waited = tokio::time::timeout(LONG, waiting).await;
    assert!(waited.is_ok(), "in vain waited for this: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_goes_on_where_either_side_was_killed_and_both_say_how_far_it_is() {
    let mut set = slow_suppliers(|settings| settings.kept_updates = 10).await;
    let away = miss(&mut set, FEW).await;
    let store = set.sites[0].store.clone();
    eventually("too few updates are kept", || {
        store.updates(1, FEW.0).unwrap().len() < FEW.0
    })
    .await;
    drop(store);
    set.revive(2, away).await;
    in_time(&mut set, "both sides show the contents that come", |set| {
        views(set).is_some_and(|(own, peer)| {
            let contents =
                |view: &RejoinView| view.stage == Stage::Contents && view.objects_left > 0;
            contents(&own) && contents(&peer) && own.bytes_left > Some(0)
        })
    })
    .await;
    let lacking = |set: &Set| set.sites[2].store.files_to_fetch().unwrap().len();
    in_time(&mut set, "some files have come", |set| {
        lacking(set) <= FEW.0 - 2
    })
    .await;
    let before = lacking(&set);
    assert!(before > 0, "the limit is not kept");
    let killed = set.crash(2).await;
    set.revive(2, killed).await;
    assert!(lacking(&set) <= before, "what has come is fetched again");
    in_time(&mut set, "the rest comes", |set| {
        views(set).is_some_and(|(own, _)| own.stage == Stage::Contents && own.objects_left > 0)
    })
    .await;
    limit(&mut set, None).await;
    set.revive_until_ready(2).await;
    set.assert_equal().await;
    let status = set.sites[2].replica.status();
    assert_eq!(status.rejoining, None, "it is back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_return_by_log_is_seen_and_limited_too() {
    let mut set = slow_suppliers(|_| {}).await;
    let away = miss(&mut set, MANY).await;
    set.revive(2, away).await;
    in_time(&mut set, "both sides show what is missing", |set| {
        views(set).is_some_and(|(own, peer)| {
            let by_log = |view: &RejoinView| view.stage == Stage::ByLog && view.objects_left > 64;
            by_log(&own)
                && by_log(&peer)
                && own.bytes_left > Some(0)
                && !set.sites[2].replica.ready()
        })
    })
    .await;
    limit(&mut set, None).await;
    set.revive_until_ready(2).await;
    set.assert_equal().await;
}

/// What it lacks is little enough for it to be admitted, and would take hours by the limit, which is for those who
/// are outside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_admitted_gets_the_rest_without_regard_to_the_limit() {
    let mut set = slow_suppliers(|_| {}).await;
    let away = miss(&mut set, FEW).await;
    limit(&mut set, Some(FEW.1 as u64 / 400)).await;
    set.revive(2, away).await;
    set.revive_until_ready(2).await;
    set.assert_equal().await;
}

/// Control of each of them takes a round trip to win, and ends soon when it is not used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_109_control_won_for_a_file_that_lost_data_is_used_at_once() {
    let one_way = Duration::from_millis(50);
    let mut set = far_apart(one_way).await;
    let directory = set.sites[0].directory(ROOT, "made").await.unwrap();
    let mut files = Vec::new();
    for number in 0..FEW.0 {
        let name = format!("file-{number}");
        files.push(set.sites[0].save(directory, &name, b"first").await.unwrap());
    }
    set.rest().await;
    set.cable.slow(1 << 30, one_way);
    for file in files {
        set.sites[0].write(file, 0, b"later").await.unwrap();
    }
    let killed = set.crash(0).await;
    set.revive(0, killed).await;
    let recovered = set.sites[0].store.recovered().unwrap().len();
    assert!(recovered > FEW.0 / 2, "only {recovered} have lost data");
    set.revive_until_ready(0).await;
    // Nothing is quiet before all have their new versions.
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_does_not_wait_for_what_is_removed_meanwhile() {
    let (files, length) = (10, 64 << 10);
    let mut set = slow_suppliers(|settings| settings.kept_updates = 4).await;
    let away = miss(&mut set, (files, length)).await;
    let store = set.sites[0].store.clone();
    eventually("too few updates are kept", || {
        store.updates(1, files).unwrap().len() < files
    })
    .await;
    drop(store);
    set.revive(2, away).await;
    in_time(&mut set, "the supplier sends contents", |set| {
        views(set).is_some_and(|(_, peer)| peer.stage == Stage::Contents && peer.objects_left > 5)
    })
    .await;
    let directory = set.sites[0].find(ROOT, "made").await.unwrap().id;
    for number in 0..files {
        let name = format!("file-{number}");
        set.sites[0].remove(directory, &name).await.unwrap();
    }
    set.revive_until_ready(2).await;
    set.assert_equal().await;
}

/// What the first or the second replica does all the time while the third goes and comes back.
#[derive(Clone, Copy, PartialEq)]
enum Steadily {
    /// Another file with every write.
    ManyFiles,
    /// The same file again and again, here and there.
    OneFile,
}

/// So often it has written before the third comes back.
const OFTEN: u64 = 640;

/// The third replica goes and comes back while the first writes without a pause. Where a copy is to be taken it comes back
/// only when what it lacks is not kept any more.
async fn comes_back_while_the_first_writes(set: &mut Set, what: Steadily, copy: bool) {
    comes_back_while_one_writes(set, 0, what, copy).await;
}

/// The same while this one of the first two writes. The first supplies the copy.
async fn comes_back_while_one_writes(set: &mut Set, at: usize, what: Steadily, copy: bool) {
    let directory = set.sites[at].directory(ROOT, "made").await.unwrap();
    let same = set.sites[at].file(directory, "same").await.unwrap();
    let store = set.sites[at].store.clone();
    let before = *store.stable_position().borrow();
    let away = set.crash(2).await;
    let busy = set.sites.remove(at);
    let over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&over);
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    let writer = tokio::spawn(async move {
        for number in 0.. {
            let (file, offset) = match what {
                Steadily::OneFile => {
                    // Without a pause nobody could follow at all.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    (same, number % 10 * 4096)
                }
                Steadily::ManyFiles => {
                    let file = busy.file(directory, &format!("file-{number}")).await;
                    (file.unwrap(), 0)
                }
            };
            busy.write(file, offset, &number.to_be_bytes())
                .await
                .unwrap();
            count.store(number, Ordering::Relaxed);
            if until.load(Ordering::Relaxed) {
                return busy;
            }
        }
        panic!("there are no more numbers")
    });
    let replica = set.sites[0].replica.clone();
    eventually("the others go on without it", || {
        let status = replica.view_status();
        let mut members = status.members.iter();
        members.any(|member| member.slot == 3 && !member.active)
    })
    .await;
    if copy {
        eventually("too few updates are kept", || {
            let kept = store.updates(1, 1).unwrap();
            kept.first()
                .is_some_and(|first| first.position > before + 1)
        })
        .await;
    }
    drop(store);
    eventually("it has written often", || {
        written.load(Ordering::Relaxed) > OFTEN
    })
    .await;
    set.revive(1, away).await;
    set.revive_until_ready(1).await;
    over.store(true, Ordering::Relaxed);
    let busy = writer.await.unwrap();
    set.sites.insert(at, busy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_back_is_admitted_however_steadily_the_others_write() {
    // What is changed rests for so long that many files are always on their way.
    let mut set = Set::failing_with(3, |settings| settings.data_delay = RESTS).await;
    comes_back_while_the_first_writes(&mut set, Steadily::ManyFiles, false).await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_back_is_up_to_date_though_a_file_is_never_complete_there() {
    let mut set = Set::failing_with(3, |settings| settings.data_delay = RESTS).await;
    comes_back_while_the_first_writes(&mut set, Steadily::OneFile, false).await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_complete_though_a_file_of_it_is_written_all_the_time() {
    let mut set = Set::failing_with(3, |settings| {
        settings.data_delay = RESTS;
        settings.kept_updates = 200;
    })
    .await;
    comes_back_while_the_first_writes(&mut set, Steadily::OneFile, true).await;
    set.assert_equal().await;
}

/// The supplier of a copy lacks contents of a file as long as another member writes it without a pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_97_a_copy_is_complete_though_its_supplier_never_has_all_of_a_file() {
    let mut set = Set::failing_with(3, |settings| {
        settings.data_delay = RESTS;
        settings.kept_updates = 200;
    })
    .await;
    comes_back_while_one_writes(&mut set, 1, Steadily::OneFile, true).await;
    set.assert_equal().await;
}

/// All go down, and two come back. One of these lacks what the third made, which nobody keeps to relay: it gives its copy
/// up, as a member, as too few would be left without it. Before it has got another the one that could supply it is started
/// anew, and waits for what every member reports.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_without_a_copy_gets_one_though_all_were_started_anew() {
    let patient = |settings: &mut Settings| settings.suspicion = Duration::from_secs(3);
    let mut set = Set::failing_with(3, patient).await;
    let file = set.sites[0].file(ROOT, "file").await.unwrap();
    set.sites[0].write(file, 0, b"old").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    set.sites[0].write(file, 0, b"new").await.unwrap();
    let writer = set.sites[0].replica.clone();
    eventually("the second has it", || {
        let peers = writer.status().peers;
        let mut second = peers.iter().filter(|peer| peer.slot == 2);
        second.all(|peer| peer.lag_updates == 0 && peer.lag_files == 0)
    })
    .await;
    drop(writer);
    let first = set.crash(0).await;
    let second = set.crash(0).await;
    set.revive(0, second).await;
    set.revive(1, third).await;
    let lacking = set.sites[1].replica.has_left();
    let gives_up = async {
        while lacking.borrow().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(2 * PATIENCE, gives_up).await.unwrap();
    assert_eq!(lacking.borrow().as_deref(), Some(NEEDS_COPY));
    drop(lacking);
    let (second, third) = (set.crash(0).await, set.crash(0).await);
    set.revive(0, third).await;
    set.revive(0, second).await;
    let all = async {
        while let Some(at) = set.sites.iter().position(|site| !site.replica.ready()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if set.sites[at].replica.has_left().borrow().is_some() {
                let left = set.crash(at).await;
                set.revive(at, left).await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
    set.revive(0, first).await;
    set.revive_until_ready(0).await;
    set.assert_equal().await;
    assert_eq!(set.sites[2].load(ROOT, "file").await.unwrap(), b"new");
}

/// Of the two that are left the first had changed the files before the second did, and has heard of that without their contents.
/// Both go down: the first, which does not know any more who has got what, sends all that it had changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_wrote_last_stays_though_both_were_started_anew() {
    let mut set = Set::failing(3).await;
    let mut files = Vec::new();
    for number in 0..FEW.0 {
        let file = set.sites[0].file(ROOT, &format!("file {number}")).await;
        files.push(file.unwrap());
    }
    set.rest().await;
    let third = set.crash(2).await;
    let writer = set.sites[0].replica.clone();
    eventually("the others go on without the third", || {
        let view = writer.view_status();
        let mut members = view.members.iter();
        members.any(|member| member.slot == 3 && !member.active) && writer.ready()
    })
    .await;
    for file in &files {
        let first = set.sites[0].write_stably(*file, b"of the first").await;
        first.unwrap();
    }
    eventually("the second has it", || {
        let peers = writer.status().peers;
        let mut second = peers.iter().filter(|peer| peer.slot == 2);
        second.all(|peer| peer.lag_updates == 0 && peer.lag_files == 0)
    })
    .await;
    drop(writer);
    let late = |settings: &mut Settings| settings.data_delay = LATELY;
    let second = set.crash(1).await.with(late);
    set.revive(1, second).await;
    set.revive_until_ready(1).await;
    for file in &files {
        let last = set.sites[1].write_stably(*file, b"of the other").await;
        last.unwrap();
    }
    let store = set.sites[0].store.clone();
    let last = files[FEW.0 - 1];
    eventually("the first hears of them", || store.is_incomplete(last)).await;
    drop(store);
    let (first, second) = (set.crash(0).await, set.crash(0).await);
    set.revive(0, first).await;
    set.revive(1, second).await;
    let (store, second) = (set.sites[1].store.clone(), set.sites[1].replica.clone());
    eventually("the second takes part again", || {
        for file in &files {
            let here = store.content(*file, 0, u64::MAX).unwrap();
            let [ContentPiece::Data { bytes, .. }] = &here[..] else {
                panic!("it is one piece: {here:?}");
            };
            assert_eq!(&bytes[..], b"of the other");
        }
        second.ready()
    })
    .await;
    drop((store, second));
    set.revive_until_ready(0).await;
    set.revive(2, third).await;
    set.revive_until_ready(2).await;
    set.assert_equal().await;
    assert_eq!(set.sites[2].read(last).await.unwrap(), b"of the other");
}
