//! Operations handed to a replica that dies before it answers: each is carried out exactly once, whether or not
//! that replica had done so (rule 18).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::{Crashed, ROOT, Set, eventually, name, root};
use replica::Durability;
use tokio::task::JoinHandle;
use vfs::{
    Creation, Credentials, Error, FileSystem, NewObject, ObjectId, ObjectKind, RequestId,
    SetAttributes,
};

/// How long a client asks again before the test fails.
const CLIENT_PATIENCE: Duration = Duration::from_secs(90);

type Outcome = JoinHandle<Result<(), Error>>;

/// Where clients work.
#[derive(Clone, Copy)]
struct Place {
    directory: ObjectId,
    linked: ObjectId,
}

/// What clients of one site ask for at once.
struct Asked {
    place: Place,
    pending: Vec<(&'static str, Outcome)>,
}

impl Asked {
    /// Makes what the operations need, at the site that will be asked.
    async fn prepare(set: &Set) -> Place {
        let site = &set.sites[0];
        let directory = site.directory(ROOT, "shared").await.unwrap();
        for there in ["old", "doomed"] {
            site.file(directory, there).await.unwrap();
        }
        let linked = site.file(directory, "linked").await.unwrap();
        set.rest().await;
        Place { directory, linked }
    }

    /// Asks at another site, as clients that come again when they are told so.
    fn begin(set: &Set, place: Place) -> Asked {
        Asked::begin_by(set, place, |what| request(what, false))
    }

    /// The same by clients who repeat what they asked before their server was started anew.
    fn repeat(set: &Set, place: Place) -> Asked {
        Asked::begin_by(set, place, |what| request(what, true))
    }

    fn begin_by(set: &Set, place: Place, who: impl Fn(&str) -> Credentials) -> Asked {
        let ask = |what: &'static str| {
            let (files, who) = (set.sites[1].files.clone(), who(what));
            let asking = tokio::spawn(async move {
                loop {
                    match once(&*files, what, place, who.clone()).await {
                        Err(Error::Delay | Error::Uncertain) => {
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                        outcome => return outcome,
                    }
                }
            });
            (what, asking)
        };
        Asked {
            place,
            pending: CHANGES.map(ask).into(),
        }
    }

    /// Its clients hear nothing any more, because their server dies.
    async fn break_off(self) -> Place {
        for (_, asking) in self.pending {
            asking.abort();
            drop(asking.await);
        }
        self.place
    }

    /// Whether a copy shows all of it done.
    async fn done_at(&self, store: &store::Store) -> bool {
        let who = root();
        for (sought, there) in [
            ("old", false),
            ("new", true),
            ("doomed", false),
            ("made", true),
            ("file", true),
            ("second", true),
        ] {
            let sought = name(sought);
            let found = store.lookup(&who, self.place.directory, &sought).await;
            if found.is_ok() != there {
                return false;
            }
        }
        true
    }

    /// Each of them succeeded.
    async fn succeed(self) {
        for (what, asking) in self.pending {
            let answered = tokio::time::timeout(CLIENT_PATIENCE, asking).await;
            assert_eq!(answered.expect(what).unwrap(), Ok(()), "{what}");
        }
    }
}

/// What clients ask for.
const CHANGES: [&str; 5] = ["rename", "remove", "mkdir", "create", "link"];

/// The superuser with the request for one of the changes.
fn request(what: &str, repeat_only: bool) -> Credentials {
    let mut series = [0; RequestId::SERIES_BYTES];
    series[..what.len()].copy_from_slice(what.as_bytes());
    root().with_request(Some(RequestId {
        series,
        number: 4,
        part: 1,
        digest: 9,
        repeat_only,
    }))
}

async fn once(
    files: &dyn FileSystem,
    what: &str,
    Place { directory, linked }: Place,
    who: Credentials,
) -> Result<(), Error> {
    let set = SetAttributes::default();
    match what {
        "rename" => {
            let (old, new) = (name("old"), name("new"));
            let renamed = files.rename(&who, (directory, &old), (directory, &new));
            renamed.await.map(|_| ())
        }
        "remove" => {
            let removed = files.remove(&who, directory, &name("doomed")).await;
            removed.map(|_| ())
        }
        "mkdir" => {
            let new = NewObject::Plain(ObjectKind::Directory);
            let made = files
                .create(&who, directory, &name("made"), new, &set)
                .await?;
            assert!(made.made && made.attributes.is_directory());
            Ok(())
        }
        "create" => {
            let new = NewObject::File(Creation::Guarded);
            let made = files
                .create(&who, directory, &name("file"), new, &set)
                .await;
            made.map(|_| ())
        }
        _ => {
            let made = files.link(&who, linked, directory, &name("second")).await;
            made.map(|_| ())
        }
    }
}

/// Keeps the first site busy in the directory, so that it stays primary until it dies.
struct Busy {
    stop: Arc<AtomicBool>,
    work: JoinHandle<()>,
}

impl Busy {
    fn in_directory(set: &Set, directory: ObjectId) -> Busy {
        let (files, stop) = (set.sites[0].files.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let work = tokio::spawn(async move {
            let made = name("busy");
            while !stopped.load(Ordering::Acquire) {
                let (new, set) = (
                    NewObject::File(Creation::Unchecked),
                    SetAttributes::default(),
                );
                // It may be told to come again like any client.
                drop(files.create(&root(), directory, &made, new, &set).await);
                drop(files.remove(&root(), directory, &made).await);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        Busy { stop, work }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Release);
        // It may wait for somebody who does not answer.
        self.work.abort();
        drop(self.work.await);
    }
}

async fn until_done_at(asked: &Asked, store: &store::Store) {
    let done = async {
        while !asked.done_at(store).await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let done = tokio::time::timeout(crate::fixture::PATIENCE, done).await;
    assert!(done.is_ok(), "the primary carries out what it is asked");
}

/// Three replicas, and how many of the connections to the first one are the second one's. What the first one has
/// begun to decide about it goes on deciding about while a test looks, and it is not missed at once.
async fn three() -> (Set, usize) {
    let mut settings = Set::noticing_soon();
    settings.site_lease = Duration::from_secs(6);
    settings.suspicion = Duration::from_secs(4);
    settings.control.directory_control_idle = Duration::from_secs(3);
    settings.control.deep_control_idle = Duration::from_secs(3);
    let mut set = Set::alone_with(settings).await;
    set.add().await;
    let of_the_second = set.cable.connections();
    set.add().await;
    (set, of_the_second)
}

/// The first site is lost when it has done what is asked at the second one, before it says so.
async fn lose_after_doing(set: &mut Set, of_the_second: usize) -> (Asked, Crashed) {
    let place = Asked::prepare(set).await;
    let busy = Busy::in_directory(set, place.directory);
    until_primary(set).await;
    set.cable.lose_answers(of_the_second);
    let asked = Asked::begin(set, place);
    until_done_at(&asked, &set.sites[0].store).await;
    busy.end().await;
    let lost = set.crash(0).await;
    set.cable.lose_answers(0);
    (asked, lost)
}

/// The second site is started anew when the first one has done what it was asked for there, before it hears of it.
async fn start_asker_anew(set: &mut Set, of_the_second: usize) -> Place {
    let place = Asked::prepare(set).await;
    let busy = Busy::in_directory(set, place.directory);
    until_primary(set).await;
    set.cable.lose_answers(of_the_second);
    let asked = Asked::begin(set, place);
    until_done_at(&asked, &set.sites[0].store).await;
    let place = asked.break_off().await;
    busy.end().await;
    let lost = set.crash(1).await;
    set.cable.lose_answers(0);
    set.revive(1, lost).await;
    place
}

/// The second site knows that the first one decides about something.
async fn until_primary(set: &Set) {
    let replica = set.sites[1].replica.clone();
    let known = || replica.status().controls_total > 0;
    eventually("it is primary, and the others know", known).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_primary_had_done_is_answered_when_it_is_back() {
    let (mut set, of_the_second) = three().await;
    let (asked, lost) = lose_after_doing(&mut set, of_the_second).await;
    set.revive(0, lost).await;
    asked.succeed().await;
    set.revive_until_ready(0).await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_primary_had_done_is_answered_by_those_who_take_over() {
    let (mut set, of_the_second) = three().await;
    let durability = Some(Durability::Majority);
    let asked_for = set.sites[0].replica.set_durability(ROOT, durability);
    asked_for.await.unwrap();
    let (asked, lost) = lose_after_doing(&mut set, of_the_second).await;
    asked.succeed().await;
    set.revive(0, lost).await;
    set.revive_until_ready(0).await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_primary_never_heard_of_is_done_once() {
    let (mut set, of_the_second) = three().await;
    let place = Asked::prepare(&set).await;
    let busy = Busy::in_directory(&set, place.directory);
    until_primary(&set).await;
    set.cable.lose_requests(of_the_second);
    let replica = set.sites[1].replica.clone();
    let before = replica.status().forwarded;
    let asked = Asked::begin(&set, place);
    eventually("they are handed over", || {
        replica.status().forwarded > before
    })
    .await;
    drop(replica);
    busy.end().await;
    let lost = set.crash(0).await;
    set.cable.lose_requests(0);
    set.revive(0, lost).await;
    asked.succeed().await;
    set.revive_until_ready(0).await;
    set.assert_equal().await;
}

/// What the first one has done is on record with the change, so the first one itself, and each
/// replica that has applied the change, can tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_47_what_was_done_for_a_replica_that_starts_anew_is_answered() {
    let (mut set, of_the_second) = three().await;
    let place = start_asker_anew(&mut set, of_the_second).await;
    Asked::repeat(&set, place).succeed().await;
    set.revive_until_ready(1).await;
    set.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_47_the_same_holds_when_the_one_that_did_it_starts_anew_too() {
    let (mut set, of_the_second) = three().await;
    let place = start_asker_anew(&mut set, of_the_second).await;
    let lost = set.crash(0).await;
    set.revive(0, lost).await;
    Asked::repeat(&set, place).succeed().await;
    for at in 0..2 {
        set.revive_until_ready(at).await;
    }
    // And everywhere else, no matter which replica decides by now.
    let third = set.sites[2].files.clone();
    for what in CHANGES {
        let again = once(&*third, what, place, request(what, true)).await;
        assert_eq!(again, Ok(()), "{what}");
    }
    drop(third);
    set.assert_equal().await;
}
