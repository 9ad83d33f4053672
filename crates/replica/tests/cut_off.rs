//! A replica without a majority, and what its clients are told as its settings say; the same for what is frozen.

use std::time::Duration;

use crate::fixture::{Crashed, ROOT, Set, Site, eventually};
use replica::{Durability, Frozen, Settings, WithoutMajority};
use vfs::{Error, ObjectId};

/// Longer than it takes to find out, and shorter than a client's patience.
const MOMENT: Duration = Duration::from_secs(3);

/// Three replicas with a file that all have.
async fn three(change: impl FnOnce(&mut Settings)) -> (Set, ObjectId) {
    let set = Set::failing_with(3, change).await;
    let file = set.sites[0].save(ROOT, "file", b"before").await.unwrap();
    set.rest().await;
    (set, file)
}

/// Brings the others back until all three take part.
async fn bring_back(set: &mut Set, second: Crashed, third: Crashed) {
    set.revive(1, second).await;
    set.revive(2, third).await;
    for at in 0..3 {
        set.revive_until_ready(at).await;
    }
}

/// What a site says of a file as soon as it says anything but to come again.
async fn answer(site: &Site, file: ObjectId) -> Result<Vec<u8>, Error> {
    loop {
        match site.try_read(file, MOMENT).await {
            Err(Error::Delay) => {}
            answer => return answer,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_three_answers_nobody_and_loses_nothing_when_the_others_are_back() {
    let (mut set, file) = three(|_| {}).await;
    let majority = Some(Durability::Majority);
    set.sites[0]
        .replica
        .set_durability(ROOT, majority)
        .await
        .unwrap();
    set.rest().await;
    set.sites[2].write_stably(file, b"answer").await.unwrap();
    let third = set.crash(2).await;
    let second = set.crash(1).await;
    let alone = &set.sites[0];
    eventually("it may answer no more", || !alone.replica.ready()).await;
    assert_eq!(alone.try_read(file, MOMENT).await, Err(Error::Delay));
    assert_eq!(
        alone.try_write(file, b"alone!", MOMENT).await,
        Err(Error::Delay)
    );
    let first = set.crash(0).await;
    set.revive(0, first).await;
    let alone = &set.sites[0];
    eventually("it says that it was started anew", || {
        let obstacle = alone.replica.view_status().obstacle;
        obstacle.is_some_and(|why| why.contains("started anew"))
    })
    .await;
    bring_back(&mut set, second, third).await;
    for at in 0..3 {
        assert_eq!(set.sites[at].read(file).await.unwrap(), b"answer");
        let made = format!("made-at-{at}");
        set.sites[at]
            .save(ROOT, &made, b"all goes on")
            .await
            .unwrap();
    }
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_told_of_a_failure_only_while_no_majority_is_in_contact() {
    let (mut set, file) =
        three(|settings| settings.without_majority = WithoutMajority::Error).await;
    let [third, second] = [set.crash(2).await, set.crash(1).await];
    let alone = &set.sites[0];
    eventually("it may answer no more", || !alone.replica.ready()).await;
    let told = answer(alone, file).await;
    assert!(matches!(told, Err(Error::Io(_))), "{told:?}");
    let told = alone.try_write(file, b"alone!", MOMENT).await;
    assert!(matches!(told, Err(Error::Io(_))), "{told:?}");
    // A server that starts does not know yet whom it reaches, and its clients wait.
    set.revive(1, second).await;
    set.revive(2, third).await;
    for site in &set.sites[1..] {
        match site.try_read(file, MOMENT).await {
            Ok(read) => assert_eq!(read, b"before"),
            Err(told) => assert_eq!(told, Error::Delay),
        }
    }
    for at in 0..3 {
        set.revive_until_ready(at).await;
        assert_eq!(set.sites[at].read(file).await.unwrap(), b"before");
    }
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_reads_may_choose_what_may_be_old() {
    let chosen = |settings: &mut Settings| settings.without_majority = WithoutMajority::StaleReads;
    let (mut set, file) = three(chosen).await;
    let [third, second] = [set.crash(2).await, set.crash(1).await];
    let alone = &set.sites[0];
    eventually("it may answer no more", || !alone.replica.ready()).await;
    assert_eq!(answer(alone, file).await.unwrap(), b"before");
    assert_eq!(
        alone.try_write(file, b"alone!", MOMENT).await,
        Err(Error::Delay)
    );
    bring_back(&mut set, second, third).await;
    set.sites[1].save(ROOT, "file", b"newer!").await.unwrap();
    assert_eq!(set.sites[0].load(ROOT, "file").await.unwrap(), b"newer!");
    set.assert_equal().await;
}

/// The first replica is lost with a change of the file that nobody else has.
async fn frozen(frozen: Frozen) -> (Set, ObjectId) {
    let (mut set, file) = three(|settings| settings.frozen = frozen).await;
    let open = set.sites[0]
        .open(file, "a writer", crate::fixture::WRITE)
        .await;
    open.unwrap();
    set.sites[0].write(file, 0, b"newer!").await.unwrap();
    drop(set.crash(0).await);
    let replica = set.sites[0].replica.clone();
    eventually("the file is frozen", || {
        replica.ready() && replica.frozen().0.iter().any(|control| control.slot == 1)
    })
    .await;
    (set, file)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_may_be_told_at_once_that_an_object_is_frozen() {
    let (set, file) = frozen(Frozen::Error).await;
    for site in &set.sites {
        let told = answer(site, file).await;
        assert!(matches!(told, Err(Error::Io(_))), "{told:?}");
        let told = site.try_write(file, b"theirs", MOMENT).await;
        assert!(matches!(told, Err(Error::Io(_))), "{told:?}");
    }
    set.sites[0].save(ROOT, "other", b"goes on").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_reads_may_choose_the_last_version_that_came_of_a_frozen_object() {
    let (set, file) = frozen(Frozen::LastSynchronised).await;
    for site in &set.sites {
        assert_eq!(answer(site, file).await.unwrap(), b"before");
        assert_eq!(
            site.try_write(file, b"theirs", MOMENT).await,
            Err(Error::Delay)
        );
    }
}
