//! Opens and locks of clients at two metadata servers: they conflict with each other, survive a restart of either server, and are released
//! when a server is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::fixture::{CLIENT_LEASE, Pool, READS, owned};
use metadata_server::{Answer, Asked, NoLayout, Question};
use tokio::sync::Notify;
use vfs::{
    AccessCheck, ByteRange, Error, FileSystem, LockKind, LockOwner, ObjectId, ReplicaSlot, Share,
};

const DENYING: Share = Share {
    deny_write: true,
    ..READS
};
const WRITES: Share = Share {
    write: true,
    ..READS
};

pub fn locker(client: &str) -> LockOwner {
    LockOwner {
        client: client.as_bytes().into(),
        owner: b"owner"[..].into(),
    }
}

fn range(start: u64, last: u64) -> ByteRange {
    ByteRange::from_bounds(start, last).unwrap()
}

pub async fn lock(tree: &dyn FileSystem, file: ObjectId, client: &str, at: u64) -> vfs::Result<()> {
    let (owner, range) = (locker(client), range(at, at));
    tree.lock(file, &owner, range, LockKind::Write).await
}

pub fn holder(locked: vfs::Result<()>) -> Arc<[u8]> {
    match locked {
        Err(Error::Locked(conflict)) => conflict.owner.client,
        other => panic!("{other:?}"),
    }
}

/// A pool whose servers serve, and a file.
pub async fn serving() -> (Pool, ObjectId) {
    let pool = Pool::new().serving().await.keeping().await;
    pool.begin_telling().await;
    pool.second.end_reclaim().await.unwrap();
    let file = pool.file("file", b"bytes").await.id;
    (pool, file)
}

/// Clients of the second server are forgotten only after `may_end` is notified.
pub fn forgetting(pool: &Pool) -> (Arc<AtomicBool>, Arc<Notify>) {
    let (is_called, may_end) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let (called, end) = (is_called.clone(), may_end.clone());
    pool.second.on_loss(Arc::new(move || {
        called.store(true, Ordering::SeqCst);
        let end = end.clone();
        Box::pin(async move { end.notified().await })
    }));
    (is_called, may_end)
}

pub async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Repeats a question of the second server's clients until the server has forgotten the earlier clients.
pub async fn when_served<T>(asked: impl AsyncFn() -> vfs::Result<T>) -> vfs::Result<T> {
    loop {
        match asked().await {
            Err(Error::Delay) => tokio::time::sleep(Duration::from_millis(1)).await,
            other => return other,
        }
    }
}

#[tokio::test]
async fn clients_at_two_servers_keep_each_other_out() {
    let (pool, file) = serving().await;
    let (first, second) = (pool.first(), &*pool.second);
    lock(second, file, "there", 1).await.unwrap();
    lock(&*first, file, "here", 2).await.unwrap();
    assert_eq!(&*holder(lock(second, file, "there", 2).await), b"here");
    // The same client counts as another one at the other server.
    let refused = holder(lock(&*first, file, "there", 1).await);
    assert_ne!(&*refused, b"there");
    assert_eq!(&*holder(lock(second, file, "other", 1).await), b"there");
    let other = locker("other");
    let conflict = second.test_lock(file, &other, range(0, 9), LockKind::Read);
    assert_eq!(conflict.await.unwrap().unwrap().owner, locker("there"));
    assert!(second.holds_lock(file, &locker("there")).await.unwrap());
    assert!(!second.holds_lock(file, &locker("here")).await.unwrap());
    let all = ByteRange::EVERYTHING;
    second.unlock(file, &locker("there"), all).await.unwrap();
    lock(&*first, file, "there", 1).await.unwrap();
    let access = AccessCheck::Open(&pool.who);
    let trees: [&dyn FileSystem; 2] = [second, &*first];
    for (denier, other) in [(trees[0], trees[1]), (trees[1], trees[0])] {
        let denied = denier.open(access, file, &owned("one"), DENYING).await;
        denied.unwrap();
        let refused = other.open(access, file, &owned("one"), WRITES).await;
        assert_eq!(refused.err(), Some(Error::ShareDenied));
        denier.close(file, &owned("one")).await.unwrap();
        other
            .open(access, file, &owned("one"), WRITES)
            .await
            .unwrap();
        let refused = denier.open(access, file, &owned("one"), DENYING).await;
        assert_eq!(refused.err(), Some(Error::ShareDenied));
        other.close(file, &owned("one")).await.unwrap();
    }
}

#[tokio::test]
async fn who_waits_for_a_lock_hears_that_it_was_given_back_at_the_other_server() {
    let (pool, file) = serving().await;
    let (first, second) = (pool.first(), pool.second.clone());
    let trees: [Arc<dyn FileSystem>; 2] = [first, second];
    let heard = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    for (tree, heard) in trees.iter().zip(heard.clone()) {
        let listener = move |object| {
            assert_eq!(object, file);
            heard.fetch_add(1, Ordering::SeqCst);
        };
        tree.on_lock_change(Arc::new(listener));
    }
    for (holds, waits) in [(0, 1), (1, 0)] {
        lock(&*trees[holds], file, "holder", 1).await.unwrap();
        holder(lock(&*trees[waits], file, "waiter", 1).await);
        let before = heard[waits].load(Ordering::SeqCst);
        let all = ByteRange::EVERYTHING;
        let owner = locker("holder");
        trees[holds].unlock(file, &owner, all).await.unwrap();
        until(|| heard[waits].load(Ordering::SeqCst) > before).await;
    }
}

#[tokio::test]
async fn clients_of_a_server_that_was_started_anew_keep_what_they_reclaim_and_nothing_else() {
    let pool = Pool::new().serving().await;
    let file = pool.file("file", b"bytes").await.id;
    let (first, second) = (pool.first(), &*pool.second);
    let whole = range(0, 99);
    let owner = locker("one");
    let held = second.lock(file, &owner, whole, LockKind::Write).await;
    held.unwrap();
    lock(second, file, "two", 100).await.unwrap();
    let access = AccessCheck::Open(&pool.who);
    pool.wire.run.store(2, Ordering::SeqCst);
    pool.begin_telling().await;
    // No client reclaims state that was lost in between.
    assert!(second.others_went_on(crate::fixture::ROOT) && second.others_reclaim());
    assert!(second.holds_lock(file, &locker("one")).await.unwrap());
    assert!(!second.holds_lock(file, &locker("three")).await.unwrap());
    lock(second, file, "one", 5).await.unwrap();
    let denied = second.open(access, file, &owned("one"), DENYING).await;
    assert_eq!(denied.err(), Some(Error::ShareDenied), "it was not held");
    pool.wire.run.store(1, Ordering::SeqCst);
    let late = second.unlock(file, &locker("one"), whole).await;
    assert_eq!(late, Err(Error::Delay));
    pool.wire.run.store(2, Ordering::SeqCst);
    holder(lock(&*first, file, "here", 6).await);
    second.end_reclaim().await.unwrap();
    for free in [4, 6, 100] {
        lock(&*first, file, "here", free).await.unwrap();
    }
    holder(lock(&*first, file, "here", 5).await);
}

#[tokio::test]
async fn what_clients_of_a_lost_server_hold_is_given_up_a_lease_later_and_they_are_forgotten() {
    let (pool, file) = serving().await;
    let (first, second) = (pool.first(), &*pool.second);
    let (is_forgotten, may_end) = forgetting(&pool);
    lock(second, file, "there", 1).await.unwrap();
    let access = AccessCheck::Open(&pool.who);
    let denied = second.open(access, file, &owned("there"), DENYING).await;
    denied.unwrap();
    pool.remove("file").await;
    // The home hears nothing of the server. A home that stood still heard nothing itself, so the test calls this regularly.
    pool.home().give_up_lost().await;
    for _ in 0..9 {
        pool.wire.pass(10.0);
        pool.home().give_up_lost().await;
    }
    holder(lock(&*first, file, "here", 1).await);
    for _ in 0..2 {
        pool.wire.pass(2.0);
        pool.home().give_up_lost().await;
    }
    assert_eq!(
        pool.first().attributes(file).await.err(),
        Some(Error::Stale)
    );
    assert!(!is_forgotten.load(Ordering::SeqCst), "nobody could tell it");
    // A write that depends on the lost state fails until the clients are forgotten.
    let other = pool.file("other", b"bytes").await.id;
    let late = second.write(access, other, 0, "late".into(), vfs::Stability::File);
    assert_eq!(late.await.err(), Some(Error::Delay));
    until(|| is_forgotten.load(Ordering::SeqCst)).await;
    assert_eq!(pool.read(other).await, Err(Error::Delay));
    second.close(file, &owned("there")).await.unwrap();
    may_end.notify_one();
    let read = when_served(async || pool.read(other).await).await;
    assert_eq!(read.unwrap(), b"bytes");
    lock(second, other, "there", 1).await.unwrap();
    // A server that is heard keeps its state.
    for _ in 0..20 {
        pool.wire.pass(9.0);
        pool.second.ask_for_lease().await.unwrap();
        pool.home().give_up_lost().await;
    }
    holder(lock(&*first, other, "here", 1).await);
    // It also keeps its state if the home stood still.
    pool.wire.pass(1000.0);
    pool.home().give_up_lost().await;
    holder(lock(&*first, other, "here", 1).await);
}

#[tokio::test]
async fn a_home_that_was_started_anew_gives_nobody_what_clients_of_others_hold() {
    let (mut pool, file) = serving().await;
    lock(&*pool.second, file, "there", 1).await.unwrap();
    pool.restart_home().await;
    let first = pool.first();
    assert!(first.others_reclaim());
    let ends = tokio::spawn({
        let first = first.clone();
        async move { first.end_reclaim().await }
    });
    let new = lock(&*pool.second, file, "other", 9).await;
    assert_eq!(new, Err(Error::Grace));
    assert!(first.others_reclaim() && !ends.is_finished());
    assert_eq!(pool.second.hand_over().await, Ok((0, 1)));
    // A client that has not come back may write by a layout at a data server that does not know yet.
    assert!(first.others_reclaim() && !ends.is_finished());
    let new = lock(&*pool.second, file, "other", 9).await;
    assert_eq!(new, Err(Error::Grace));
    pool.wire.pass(3.4);
    assert!(!first.others_reclaim());
    ends.await.unwrap().unwrap();
    let refused = holder(lock(&*first, file, "here", 1).await);
    assert!(refused.ends_with(b"there"));
    lock(&*pool.second, file, "other", 9).await.unwrap();
    // A repeated report has the same effect.
    assert_eq!(pool.second.hand_over().await, Ok((0, 2)));
    holder(lock(&*first, file, "here", 1).await);
}

#[tokio::test]
async fn what_an_earlier_run_of_the_home_was_told_does_not_count_at_the_next_one() {
    let (mut pool, file) = serving().await;
    lock(&*pool.second, file, "there", 1).await.unwrap();
    pool.restart_home().await;
    // It was sent to the previous run, so it must be repeated.
    assert_eq!(pool.second.end_reclaim().await, Err(Error::Delay));
    assert!(pool.first().others_reclaim());
    assert_eq!(pool.second.hand_over().await, Ok((0, 1)));
    pool.wire.pass(3.4);
    pool.first().end_reclaim().await.unwrap();
    holder(lock(&*pool.first(), file, "here", 1).await);
}

#[tokio::test]
async fn who_comes_too_late_to_a_home_that_was_started_anew_has_nothing() {
    let (mut pool, file) = serving().await;
    let (is_forgotten, may_end) = forgetting(&pool);
    lock(&*pool.second, file, "there", 1).await.unwrap();
    pool.restart_home().await;
    let first = pool.first();
    pool.wire.pass(3.4 + CLIENT_LEASE);
    assert!(first.others_reclaim(), "nobody else may know it yet");
    pool.home().give_up_lost().await;
    assert!(!first.others_reclaim());
    first.end_reclaim().await.unwrap();
    lock(&*first, file, "here", 1).await.unwrap();
    assert_eq!(pool.second.hand_over().await, Err(Error::Delay));
    until(|| is_forgotten.load(Ordering::SeqCst)).await;
    may_end.notify_one();
    let told = when_served(async || pool.second.hand_over().await).await;
    assert_eq!(told, Ok((0, 0)));
    holder(lock(&*pool.second, file, "there", 1).await);
    // The same holds for a server that leaves.
    lock(&*pool.second, file, "there", 2).await.unwrap();
    pool.home().part(ReplicaSlot(2)).await;
    lock(&*first, file, "here", 2).await.unwrap();
    let asked = Asked {
        tree: None,
        keeps: None,
        clients: 0,
        question: Question::HoldsLock(file, locker("there")),
    };
    let answer = pool.home().answer(pool.wire.asker(), asked).await.answer;
    assert_eq!(answer, Ok(Answer::Holds(false)));
}

/// Has the home give up the state of the second server's clients.
pub async fn lose(pool: &Pool) {
    pool.home().give_up_lost().await;
    for _ in 0..11 {
        pool.wire.pass(9.0);
        pool.home().give_up_lost().await;
    }
}

#[tokio::test]
async fn what_was_given_up_stays_so_when_the_home_is_started_anew_and_the_other_as_well() {
    for run in [1, 2] {
        let (mut pool, file) = serving().await;
        let (is_forgotten, may_end) = forgetting(&pool);
        lock(&*pool.second, file, "there", 1).await.unwrap();
        lose(&pool).await;
        // Another client has the lock meanwhile, and releases it without a trace.
        lock(&*pool.first(), file, "here", 1).await.unwrap();
        let (owner, all) = (locker("here"), ByteRange::EVERYTHING);
        pool.first().unlock(file, &owner, all).await.unwrap();
        pool.restart_home().await;
        pool.wire.run.store(run, Ordering::SeqCst);
        may_end.notify_one();
        let there = locker("there");
        let holds = when_served(async || pool.second.holds_lock(file, &there).await).await;
        assert_eq!(holds, Ok(false));
        assert!(is_forgotten.load(Ordering::SeqCst));
        let told = when_served(async || pool.second.hand_over().await).await;
        assert_eq!(told, Ok((0, 0)));
        assert!(pool.first().others_reclaim());
        pool.wire.pass(3.4);
        pool.first().end_reclaim().await.unwrap();
        // They keep what they get afterwards.
        lock(&*pool.second, file, "there", 1).await.unwrap();
        pool.restart_home().await;
        assert_eq!(pool.second.hand_over().await, Ok((0, 1)));
        holder(lock(&*pool.first(), file, "here", 1).await);
    }
}

#[tokio::test]
async fn who_was_late_once_has_nothing_at_the_next_start_of_the_home_either() {
    let (mut pool, file) = serving().await;
    let (is_forgotten, may_end) = forgetting(&pool);
    lock(&*pool.second, file, "there", 1).await.unwrap();
    pool.restart_home().await;
    pool.wire.pass(3.4 + CLIENT_LEASE);
    pool.home().give_up_lost().await;
    pool.restart_home().await;
    assert_eq!(pool.second.hand_over().await, Err(Error::Delay));
    until(|| is_forgotten.load(Ordering::SeqCst)).await;
    may_end.notify_one();
    let told = when_served(async || pool.second.hand_over().await).await;
    assert_eq!(told, Ok((0, 0)));
}

#[tokio::test]
async fn nobody_gets_what_a_lost_servers_client_had_before_it_can_write_no_more() {
    let (pool, file) = serving().await;
    let given = pool.wire.given.clone();
    lock(&*pool.second, file, "there", 1).await.unwrap();
    pool.second.layout(file, 5, true).await.unwrap();
    let ends = given.ending.lock().await;
    let looks = async {
        until(|| given.asked[1].load(Ordering::SeqCst) > 0).await;
        holder(lock(&*pool.first(), file, "here", 1).await);
        drop(ends);
    };
    tokio::join!(lose(&pool), looks);
    lock(&*pool.first(), file, "here", 1).await.unwrap();
    let ended = given.ended.lock().unwrap().clone();
    assert!(matches!(ended[..], [(of, _)] if of == file), "{ended:?}");
}

#[tokio::test]
async fn a_layout_that_is_given_back_while_it_is_asked_for_is_not_had() {
    let (pool, file) = serving().await;
    let given = pool.wire.given.clone();
    let gives = given.giving.lock().await;
    let ends = async {
        until(|| given.asked[0].load(Ordering::SeqCst) > 0).await;
        pool.second.end_layout(file, 5, false).await.unwrap();
        drop(gives);
    };
    let (got, ()) = tokio::join!(pool.second.layout(file, 5, true), ends);
    assert_eq!(got, Err(NoLayout::ThroughServer));
    let ended = given.ended.lock().unwrap().clone();
    assert_eq!(ended, [ended[0]; 2], "once more behind the giving");
    assert_eq!(pool.home().holder_elsewhere(ended[0].1), None);
}

#[tokio::test]
async fn who_is_refused_a_layout_and_has_none_is_forgotten_without_another_question() {
    let (pool, file) = serving().await;
    let given = pool.wire.given.clone();
    let ended = || std::mem::take(&mut *given.ended.lock().unwrap());
    let asked = || pool.wire.asked.load(Ordering::SeqCst);
    given.refuses.store(1, Ordering::SeqCst);
    let got = pool.second.layout(file, 5, true).await;
    assert_eq!(got, Err(NoLayout::Recalled));
    let [(_, number)] = ended()[..] else {
        panic!("it was one");
    };
    assert_eq!(pool.home().holder_elsewhere(number), None);
    let before = asked();
    pool.second.end_layout(file, 5, true).await.unwrap();
    assert_eq!(asked(), before);
    // Of two questions for the same holder, one gets a layout.
    given.refuses.store(1, Ordering::SeqCst);
    let gives = given.giving.lock().await;
    let both = async {
        until(|| given.asked[0].load(Ordering::SeqCst) == 3).await;
        drop(gives);
    };
    let ask = || pool.second.layout(file, 6, true);
    let (one, other, ()) = tokio::join!(ask(), ask(), both);
    assert_ne!(one.is_ok(), other.is_ok());
    assert_eq!(ended(), []);
    let holder = pool.home().holder_elsewhere(number + 1);
    assert_eq!(holder, Some((pool.wire.asker(), 6)));
    // A holder with a layout keeps it if another question is refused.
    given.refuses.store(1, Ordering::SeqCst);
    assert_eq!(ask().await, Err(NoLayout::Recalled));
    assert_eq!(ended(), []);
    pool.second.end_layout(file, 6, false).await.unwrap();
    assert_eq!(ended(), [(file, number + 1)]);
}

#[tokio::test]
async fn layouts_are_asked_for_anew_behind_each_meeting_of_the_two() {
    let (mut pool, file) = serving().await;
    let given = pool.wire.given.clone();
    let ended = || std::mem::take(&mut *given.ended.lock().unwrap());
    let holder_of = |pool: &Pool, number| pool.home().holder_elsewhere(number);
    pool.second.layout(file, 5, true).await.unwrap();
    let size = pool.second.commit_layout(file, 5, Some(9)).await;
    assert_eq!(size, Ok(9));
    pool.second.hand_over().await.unwrap();
    let [(_, number)] = ended()[..] else {
        panic!("it was one");
    };
    let size = pool.second.commit_layout(file, 5, Some(9)).await;
    assert_eq!(size, Err(NoLayout::ThroughServer));
    // The same holder number now means another holder.
    pool.second.layout(file, 5, true).await.unwrap();
    assert_eq!(holder_of(&pool, number), None);
    assert_eq!(holder_of(&pool, number + 1), Some((pool.wire.asker(), 5)));
    // Layouts of an earlier run of the other server end at the latest when its clients have come back.
    pool.wire.run.store(2, Ordering::SeqCst);
    let early = pool.second.end_reclaim().await;
    assert_eq!(early, Err(Error::Delay), "it has told nothing");
    pool.begin_telling().await;
    pool.second.end_reclaim().await.unwrap();
    assert_eq!(ended(), [(file, number + 1)]);
    // A layout of an earlier run of the home may still be valid, until its lease has certainly expired.
    pool.second.layout(file, 6, true).await.unwrap();
    pool.restart_home().await;
    pool.second.hand_over().await.unwrap();
    let mut lost = std::pin::pin!(pool.second.end_layout(file, 6, true));
    let soon = Duration::from_millis(100);
    assert!(tokio::time::timeout(soon, &mut lost).await.is_err());
    pool.wire.pass(3.4);
    lost.await.unwrap();
    assert_eq!(ended(), []);
}

#[tokio::test]
async fn a_home_that_is_away_hears_of_a_lost_layout_before_what_it_rests_on_is_let_go() {
    let (pool, file) = serving().await;
    let given = pool.wire.given.clone();
    lock(&*pool.second, file, "there", 1).await.unwrap();
    pool.second.layout(file, 5, true).await.unwrap();
    let home = pool.wire.home.lock().unwrap().take();
    // The rest of the client's state, at other servers, need not wait.
    pool.second.end_layout(file, 5, true).await.unwrap();
    let (owner, all) = (locker("there"), ByteRange::EVERYTHING);
    let unlock = async || pool.second.unlock(file, &owner, all).await;
    assert_eq!(unlock().await, Err(Error::Delay));
    *pool.wire.home.lock().unwrap() = home;
    let ends = given.ending.lock().await;
    let looks = async {
        until(|| given.asked[1].load(Ordering::SeqCst) > 0).await;
        holder(lock(&*pool.first(), file, "here", 1).await);
        drop(ends);
    };
    let (unlocked, ()) = tokio::join!(unlock(), looks);
    unlocked.unwrap();
    let ended = given.ended.lock().unwrap().len();
    assert_eq!(ended, 1);
    lock(&*pool.first(), file, "here", 1).await.unwrap();
    // No lost layout is left to report.
    assert_eq!(unlock().await, Ok(()));
    assert_eq!(given.ended.lock().unwrap().len(), 1);
}
