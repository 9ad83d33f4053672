//! A member on its way back in the view, which has only a part of a lost replica's updates.

use control::Moment;

use super::*;

/// More updates than one message carries.
const MANY: usize = 300;

/// Enough moments for the task that applies a stream to look in the worst one.
const MOMENTS: usize = 20_000;

/// The others need much less time to exclude a silent member.
const SLOW: Duration = Duration::from_secs(8);

/// Restarts a replica with other settings.
async fn restart_with(
    set: &mut Set,
    at: usize,
    change: impl FnOnce(&mut crate::state::settings::Settings),
) {
    let crashed = set.crash(at).await.with(change);
    set.revive(at, crashed).await;
    let sites = &set.sites;
    eventually("all take part", || {
        sites.iter().all(|site| site.replica.ready())
    })
    .await;
}

/// Waits until the others go on without the third.
async fn until_left(set: &Set) {
    let left = |site: &Site| {
        let losses = site.replica.view_status().losses;
        losses.iter().any(|loss| loss.slot == 3) && site.replica.ready()
    };
    let sites = &set.sites;
    eventually("the others have gone on", || sites.iter().all(left)).await;
}

/// The third wrote a file, crashed before it noted that all others have it, and is outside the view. Returns the file.
async fn without_the_third(set: &mut Set) -> (Crashed, ObjectId) {
    loop {
        let file = set.sites[2].save(ROOT, "file", b"old").await.unwrap();
        set.rest().await;
        let third = set.crash(2).await;
        if !third.store().unshipped().unwrap().contains(&file) {
            set.revive(2, third).await;
            set.revive_until_ready(2).await;
            continue;
        }
        until_left(set).await;
        return (third, file);
    }
}

/// Of three replicas the third was admitted with a part of what the second had changed while the third was away. Then all were lost, and the
/// second stayed away. No replica keeps the rest for the third, which needs a whole copy. It gets that from the first, and the copy does not
/// wait for contents that the third was to send and lacks itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_59_who_needs_a_copy_does_not_owe_contents_that_it_lacks() {
    let mut set = Set::failing(3).await;
    // A replica outside gets one message, and must be admitted to get the rest.
    restart_with(&mut set, 1, |settings| {
        settings.return_bytes_per_second = Some(1);
    })
    .await;
    let (third, file) = without_the_third(&mut set).await;
    set.sites[1].truncate(file, 0).await.unwrap();
    for number in 0..MANY {
        let name = format!("made-{number}");
        set.sites[1].file(ROOT, &name).await.unwrap();
    }
    set.sites[1].write(file, 0, b"new").await.unwrap();
    let (first, second) = (set.sites[0].replica.clone(), set.sites[1].replica.clone());
    eventually(
        "the first has everything, and nobody controls anything",
        || {
            let status = second.status();
            let mut peers = status.peers.iter().filter(|peer| peer.slot == 1);
            status.controls_total == 0 && peers.all(|peer| peer.lag_updates + peer.lag_files == 0)
        },
    )
    .await;
    drop(second);

    set.revive(2, third).await;
    let third = set.sites[2].replica.local().clone();
    let inbox = third.state.inboxes.get(ReplicaSlot(2)).unwrap();
    let before = inbox.applied();
    eventually("the third has a part of it", || inbox.applied() > before).await;
    let nothing_more = inbox.applying.lock().await;
    assert!(third.store.is_incomplete(file));
    eventually("the third is admitted", || {
        let members = first.view_status().members;
        members
            .iter()
            .any(|member| member.slot == 3 && member.active)
    })
    .await;
    drop((first, third));
    let second = set.crash(1).await;
    let third = set.crash(1).await;
    let first = set.crash(0).await;
    drop(nothing_more);

    set.revive(0, third).await;
    // Over a slow link contents arrive, and are found outdated, only after the second has left the view.
    let third = set.sites[0].replica.local().clone();
    third.state.peers.with(ReplicaSlot(1), |peer| {
        peer.shipments.hold_back(Instant::now() + SLOW);
    });
    drop(third);
    set.revive(0, first).await;
    let go_on = async {
        while !set.sites.iter().all(|site| site.replica.ready()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            set.start_anew().await;
        }
    };
    let gone_on = tokio::time::timeout(PATIENCE, go_on).await;
    let waits = |site: &Site| site.replica.view_status().obstacle;
    let obstacles: Vec<_> = set.sites.iter().map(waits).collect();
    assert!(gone_on.is_ok(), "they wait for ever: {obstacles:?}");
    assert_eq!(set.sites[1].load(ROOT, "file").await.unwrap(), b"new");
    set.revive(1, second).await;
    set.revive_until_ready(1).await;
    set.assert_equal().await;
}

fn patient(settings: &mut crate::state::settings::Settings) {
    settings.suspicion = 2 * PATIENCE;
}

/// Makes directories until the first makes one itself: the second may control the parent for a while.
async fn changed_by_the_first(set: &Set, parent: ObjectId) {
    let first = &set.sites[0];
    let own = first.store.stable_position();
    let before = *own.borrow();
    for number in 0.. {
        let name = format!("first-{number}");
        first.directory(parent, &name).await.unwrap();
        if *own.borrow() > before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The third was on its way back, and lacked an update of the second and a later one of the first, when all were lost. The first and the third
/// run, and the third has heard of the first's update. The second is off.
async fn behind_the_second() -> (Set, Crashed) {
    let mut set = Set::failing(3).await;
    let theirs = set.sites[0].directory(ROOT, "theirs").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    until_left(&set).await;
    let store = set.sites[0].store.clone();
    let before = store.applied(ReplicaSlot(2)).unwrap();
    set.sites[1].directory(ROOT, "second").await.unwrap();
    eventually("the first has it", || {
        store.applied(ReplicaSlot(2)).unwrap() > before
    })
    .await;
    drop(store);
    changed_by_the_first(&set, theirs).await;
    let (second, first) = (set.crash(1).await, set.crash(0).await);

    set.revive(0, first.with(patient)).await;
    set.revive(1, third.with(patient)).await;
    let inboxes = &set.sites[1].replica.local().state.inboxes;
    let of_first = inboxes.get(ReplicaSlot(1)).unwrap();
    eventually("it hears of what the first has made", || {
        of_first.stuck_for().is_some()
    })
    .await;
    (set, second)
}

/// The second starts, too, and all take part without another restart.
async fn go_on_with(mut set: Set, second: Crashed) {
    set.revive(1, second.with(patient)).await;
    for site in &set.sites {
        eventually("it takes part", || site.replica.ready()).await;
    }
    set.assert_equal().await;
}

/// A stream was closed, and the next view opened it again at once. Updates that waited to be applied were lost if the task looked at them in
/// between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_closed_for_a_moment_loses_nothing() {
    let (set, second) = behind_the_second().await;
    let third = set.sites[1].replica.local().clone();
    let closing = tokio::task::spawn_blocking(move || {
        for _ in 0..MOMENTS {
            third.state.losses.closing.begin(ReplicaSlot(1));
            third.engine.notify();
            std::thread::yield_now();
            third.state.losses.closing.end_all();
            third.engine.notify();
        }
    });
    closing.await.unwrap();
    go_on_with(set, second).await;
}

/// A replica outside that needs a copy keeps its own until the members have what is in it (counterexample 58).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_says_whether_the_others_have_its_contents() {
    let set = Set::of(3).await;
    set.sites[0].save(ROOT, "before", b"before").await.unwrap();
    set.rest().await;
    let first = set.sites[0].replica.local().clone();
    // The third asks all the time; the first has heard its last request.
    let asked = || {
        let questions =
            |peer: &mut crate::state::peers::Peer| peer.questions.until(Moment(u64::MAX));
        first.state.peers.with(ReplicaSlot(3), questions)
    };
    let third = set.sites[2].replica.local().clone();
    let said = || {
        let news = third.state.peers.news();
        news.get(&ReplicaSlot(1))
            .and_then(|news| news.shipped.clone())
    };
    eventually("they have all, and the third is told so", || {
        said().is_some_and(|said| Some(said.before.0) == asked())
    })
    .await;
    first.state.peers.with(ReplicaSlot(2), |peer| {
        peer.shipments.hold_back(Instant::now() + SLOW);
    });
    set.sites[0].save(ROOT, "after", b"after").await.unwrap();
    let since = Moment(asked().unwrap());
    let later = || asked() > Some(since.0 + 500_000);
    eventually("the third asks while the second lacks something", later).await;
    assert!(said().unwrap().before <= since, "it is told so too early");
    eventually("they have all again", || said().unwrap().before > since).await;
}
