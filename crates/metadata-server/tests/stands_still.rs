//! A question that is delayed until its client is forgotten, and others have the state on which it depends, is not carried out.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use vfs::{AccessCheck, ByteRange, Credentials, Error, FileSystem, ObjectId, Stability};

use crate::fixture::{Pool, READS, Stop, owned};
use crate::holdings::{forgetting, holder, lock, locker, lose, serving, until, when_served};

/// Begins an operation of the second server's client, and stops its question on the way.
async fn stopped<T, F>(
    pool: &Pool,
    asked: impl FnOnce(Arc<dyn FileSystem>) -> F,
) -> (JoinHandle<T>, Arc<Stop>)
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let stop = pool.wire.stop_next();
    let asked = tokio::spawn(asked(pool.second.clone()));
    stop.is_reached.notified().await;
    (asked, stop)
}

/// The home gives up the state of the second server's clients. They are forgotten, and others are served there.
async fn begin_anew(pool: &Pool, file: ObjectId) {
    let (is_forgotten, may_end) = forgetting(pool);
    lose(pool).await;
    may_end.notify_one();
    when_served(async || pool.read(file).await).await.unwrap();
    assert!(is_forgotten.load(Ordering::SeqCst));
}

/// The question continues and is answered, although no caller waits any more.
async fn go_on(pool: &Pool, stop: &Stop) {
    let answered = &pool.wire.answered;
    let before = answered.load(Ordering::SeqCst);
    stop.goes_on.notify_one();
    until(|| answered.load(Ordering::SeqCst) > before).await;
}

async fn write(tree: &dyn FileSystem, file: ObjectId, bytes: &'static str) -> vfs::Result<()> {
    let who = Credentials::root();
    let access = AccessCheck::Open(&who);
    let written = tree.write(access, file, 0, bytes.into(), Stability::File);
    written.await.map(drop)
}

#[tokio::test]
async fn a_write_under_a_lock_that_somebody_else_has_by_now_is_not_carried_out() {
    let (pool, file) = serving().await;
    lock(&*pool.second, file, "there", 1).await.unwrap();
    let late = async move |tree: Arc<dyn FileSystem>| write(&*tree, file, "there").await;
    let (late, stop) = stopped(&pool, late).await;
    begin_anew(&pool, file).await;
    assert_eq!(late.await.unwrap(), Err(Error::Delay));
    lock(&*pool.first(), file, "here", 1).await.unwrap();
    write(&*pool.first(), file, "other").await.unwrap();
    go_on(&pool, &stop).await;
    assert_eq!(pool.read(file).await.unwrap(), b"other");
}

#[tokio::test]
async fn nothing_is_locked_opened_or_given_to_a_client_that_is_forgotten_by_now() {
    let (pool, file) = serving().await;
    let late = async move |tree: Arc<dyn FileSystem>| lock(&*tree, file, "there", 1).await;
    let (locks, lock_stop) = stopped(&pool, late).await;
    let open = async move |tree: Arc<dyn FileSystem>| {
        let who = Credentials::root();
        let access = AccessCheck::Open(&who);
        tree.open(access, file, &owned("there"), READS).await
    };
    let (opens, open_stop) = stopped(&pool, open).await;
    let second = pool.second.clone();
    let (layout, layout_stop) =
        stopped(&pool, async move |_| second.layout(file, 5, true).await).await;
    // Some state is held, so there is something to give up.
    lock(&*pool.second, file, "there", 9).await.unwrap();
    begin_anew(&pool, file).await;
    assert_eq!(locks.await.unwrap(), Err(Error::Delay));
    assert_eq!(opens.await.unwrap().err(), Some(Error::Delay));
    assert!(layout.await.unwrap().is_err());
    for stop in [lock_stop, open_stop, layout_stop] {
        go_on(&pool, &stop).await;
    }
    lock(&*pool.first(), file, "here", 1).await.unwrap();
    pool.remove("file").await;
    let gone = pool.first().attributes(file).await;
    assert_eq!(gone.err(), Some(Error::Stale), "nobody has it open");
    assert_eq!(pool.wire.given.asked[0].load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_a_client_that_came_again_has_is_not_given_back_by_what_it_asked_before() {
    let (pool, file) = serving().await;
    let all = ByteRange::EVERYTHING;
    lock(&*pool.second, file, "there", 1).await.unwrap();
    let late =
        async move |tree: Arc<dyn FileSystem>| tree.unlock(file, &locker("there"), all).await;
    let (unlocks, stop) = stopped(&pool, late).await;
    begin_anew(&pool, file).await;
    assert_eq!(unlocks.await.unwrap(), Err(Error::Delay));
    lock(&*pool.second, file, "there", 1).await.unwrap();
    go_on(&pool, &stop).await;
    holder(lock(&*pool.first(), file, "here", 1).await);
    // A restarted home knows it, too.
    let (late, stop) = stopped(&pool, async move |tree: Arc<dyn FileSystem>| {
        write(&*tree, file, "there").await
    })
    .await;
    go_on(&pool, &stop).await;
    assert_eq!(late.await.unwrap(), Ok(()));
    let mut pool = pool;
    pool.restart_home().await;
    pool.wire.pass(3.4);
    assert_eq!(pool.second.hand_over().await, Ok((0, 1)));
    pool.first().end_reclaim().await.unwrap();
    write(&*pool.second, file, "again").await.unwrap();
    holder(lock(&*pool.first(), file, "here", 1).await);
}

#[tokio::test]
async fn what_is_being_reclaimed_comes_before_the_end_of_reclaiming() {
    let pool = Pool::new().serving().await;
    pool.begin_telling().await;
    let file = pool.file("file", b"bytes").await.id;
    let reclaim = async move |tree: Arc<dyn FileSystem>| lock(&*tree, file, "there", 1).await;
    let (locks, stop) = stopped(&pool, reclaim).await;
    let second = pool.second.clone();
    let ends = tokio::spawn(async move { second.end_reclaim().await });
    // Gives it time to end.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!ends.is_finished());
    stop.goes_on.notify_one();
    assert_eq!(locks.await.unwrap(), Ok(()));
    assert_eq!(ends.await.unwrap(), Ok(()));
    holder(lock(&*pool.first(), file, "here", 1).await);
}
