//! Requests that are under way when the state of their client ends, or when the grace period does: nobody is given what they rest on
//! before they have ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fixture::distant::Distant;
use crate::fixture::operations::*;
use crate::fixture::sessions::*;
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, MemoryRecords, Successful, last, pass, statuses};
use nfs4::{
    ArgOp4, ExchangeIdArgs, LockArgs, NfsFh4, NfsLockType4, NfsStat4, OpenArgs, OpenClaim4,
    OpenDelegationType4, StableHow4, Stateid4, Verifier4, share,
};
use nfs4_server::{ClientId, Limits, Service};
use tokio::task::JoinHandle;
use xdr::Bytes;

/// Lets whatever is under way go on.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// A write under a lock, which the file system has not carried out yet.
struct Scene {
    fixture: Fixture,
    distant: Arc<Distant>,
    holder: Client,
    handle: NfsFh4,
    open: Stateid4,
    lock: Stateid4,
    other: Client,
}

impl Scene {
    async fn new() -> Scene {
        let (fixture, distant) = Fixture::with_distant_opens(Limits::default());
        let holder = fixture.client().await;
        let other = fixture.client().await;
        distant.way.add_permits(1);
        let (handle, open) = holder.open_new("file").await;
        let lock = holder.lock_on(&handle, first_lock(open, "locker", 0, 10));
        let lock = lock.await;
        Scene {
            fixture,
            distant,
            holder,
            handle,
            open,
            lock,
            other,
        }
    }

    fn write(&self) -> ArgOp4 {
        let data = Bytes::from_static(b"late");
        write(self.lock, 0, StableHow4::Unstable, data)
    }

    /// Sends a request of the holder in a session of its own; it stands still in the file system.
    async fn stands_still(&self, ops: Vec<ArgOp4>) -> JoinHandle<Vec<NfsStat4>> {
        let slow = self.holder.with_session(2, 1 << 16).await;
        let sent = self.distant.sent.load(Ordering::SeqCst);
        let handle = self.handle.clone();
        let request = tokio::spawn(async move { statuses(&slow.on(&handle, ops).await) });
        self.distant.until_sent(sent + 1).await;
        request
    }

    async fn writing(&self, ops: Vec<ArgOp4>) -> JoinHandle<Vec<NfsStat4>> {
        self.distant.far_writes.store(true, Ordering::SeqCst);
        self.stands_still(ops).await
    }

    /// What somebody else is told who wants the lock.
    async fn wanted(&self) -> NfsStat4 {
        let test = lockt("other", NfsLockType4::Write, 0, 10);
        self.other.status_on(&self.handle, [test]).await
    }

    async fn nobody_else_has_it<T>(&self, ending: &JoinHandle<T>) {
        for _ in 0..20 {
            pause().await;
            assert_eq!(self.wanted().await, NfsStat4::Denied);
            assert!(!ending.is_finished());
        }
    }

    /// The holder after a restart of its machine.
    async fn restarted(&self) -> (Client, nfs4::CreateSessionArgs) {
        let mut anew = Client::stranger(self.fixture.service.clone(), self.fixture.connection());
        let known = anew.introduce(self.introduction(8)).await;
        anew.id = known.clientid;
        (anew, session_request(known.clientid, known.sequenceid))
    }

    fn introduction(&self, verifier: u8) -> ExchangeIdArgs {
        let mut same = introduction("client 1");
        same.clientowner.verifier = Verifier4([verifier; 8]);
        same
    }
}

/// A client was sent away while it wrote: others got its lock, and its write came to the file afterwards.
#[tokio::test]
async fn who_is_sent_away_keeps_its_locks_until_its_requests_have_ended() {
    let scene = Scene::new().await;
    let writing = scene.writing(vec![scene.write(), scene.write()]).await;
    let (service, id) = (scene.fixture.service.clone(), scene.holder.id);
    let evicting = tokio::spawn(async move { service.evict(ClientId(id)).await });
    scene.nobody_else_has_it(&evicting).await;
    // The write, and the end of the open.
    scene.distant.way.add_permits(2);
    // What is begun only now is refused.
    let told = [NfsStat4::Ok, NfsStat4::Ok, NfsStat4::StaleClientid];
    assert_eq!(writing.await.unwrap(), told);
    assert!(evicting.await.unwrap());
    assert_eq!(scene.wanted().await, NfsStat4::Ok);
}

/// A lock that is changed while its client is sent away is not granted.
#[tokio::test]
async fn who_is_sent_away_is_granted_nothing_more() {
    let scene = Scene::new().await;
    scene.distant.far_locks.store(true, Ordering::SeqCst);
    let more = ArgOp4::Lock(next_lock(scene.lock, 20, 10));
    let locking = scene.stands_still(vec![more]).await;
    let (service, id) = (scene.fixture.service.clone(), scene.holder.id);
    let evicting = tokio::spawn(async move { service.evict(ClientId(id)).await });
    scene.nobody_else_has_it(&evicting).await;
    scene.distant.way.add_permits(2);
    assert_eq!(locking.await.unwrap()[1], NfsStat4::StaleClientid);
    assert!(evicting.await.unwrap());
    let test = lockt("other", NfsLockType4::Write, 0, 100);
    assert_eq!(
        scene.other.status_on(&scene.handle, [test]).await,
        NfsStat4::Ok
    );
}

#[tokio::test]
async fn a_client_that_was_restarted_waits_for_the_requests_of_its_earlier_self() {
    let scene = Scene::new().await;
    let writing = scene.writing(vec![scene.write()]).await;
    let (anew, request) = scene.restarted().await;
    let creating = tokio::spawn(async move { anew.request_session(request).await });
    scene.nobody_else_has_it(&creating).await;
    scene.distant.way.add_permits(2);
    assert_eq!(writing.await.unwrap(), [NfsStat4::Ok, NfsStat4::Ok]);
    creating.await.unwrap();
    assert_eq!(scene.wanted().await, NfsStat4::Ok);
}

/// Its own end is among those that would be waited for.
#[tokio::test]
async fn a_request_by_which_its_own_client_ends_is_answered() {
    let scene = Scene::new().await;
    let (_, request) = scene.restarted().await;
    scene.distant.way.add_permits(1);
    let by_it = vec![create_session(request), putfh(&scene.handle), scene.write()];
    let reply = scene.holder.compound(by_it).await;
    let told = [NfsStat4::Ok, NfsStat4::Ok, NfsStat4::StaleClientid];
    assert_eq!(statuses(&reply), told);
    while scene.wanted().await != NfsStat4::Ok {
        pause().await;
    }
}

/// While a client waits for the server its lease goes on, also when another client asks for its name.
#[tokio::test]
async fn nobody_gets_the_name_of_a_client_with_a_request_under_way() {
    let scene = Scene::new().await;
    let writing = scene.writing(vec![scene.write()]).await;
    pass(Limits::default().lease * 2);
    let user = Client::stranger(scene.fixture.service.clone(), scene.fixture.connection());
    let ask = exchange_id(scene.introduction(9));
    let told = user.as_user(1000, 1000, &[]);
    let told = told.without_session(vec![ask]).await;
    assert_eq!(told.status, NfsStat4::ClidInUse);
    scene.distant.way.add_permits(1);
    assert_eq!(writing.await.unwrap(), [NfsStat4::Ok, NfsStat4::Ok]);
    let open = test_stateid(&[scene.open, scene.lock]);
    let reply = scene.holder.compound(vec![open]).await;
    let codes = last!(reply, TestStateid).status_codes;
    assert_eq!(codes, [NfsStat4::Ok, NfsStat4::Ok]);
}

/// What the file system does for clients that it has lost is over when it goes on.
#[tokio::test]
async fn clients_are_forgotten_when_their_requests_have_ended() {
    for sent_away_before in [false, true] {
        let scene = Scene::new().await;
        let writing = scene.writing(vec![scene.write()]).await;
        let (service, id) = (scene.fixture.service.clone(), scene.holder.id);
        if sent_away_before {
            tokio::spawn({
                let service = service.clone();
                async move { service.evict(ClientId(id)).await }
            });
            pause().await;
        }
        let forgetting = tokio::spawn(async move { service.forget_clients().await });
        for _ in 0..20 {
            pause().await;
            assert!(!forgetting.is_finished());
        }
        scene.distant.way.add_permits(2);
        assert_eq!(writing.await.unwrap(), [NfsStat4::Ok, NfsStat4::Ok]);
        forgetting.await.unwrap();
    }
}

/// A start of the server at which a client is in the middle of reclaiming.
struct Reclaiming {
    distant: Arc<Distant>,
    service: Arc<Service>,
    holder: Client,
    other: Client,
    handle: NfsFh4,
    _fixture: Fixture,
}

impl Reclaiming {
    async fn new() -> Reclaiming {
        let (fixture, distant) = Fixture::with_distant_opens(Limits::default());
        let before = fixture.client().await;
        distant.way.add_permits(2);
        before.make_file("/export", "file").await;
        let handle = before.handle("/export/file").await;
        let service = fixture.restarted(&["holder"]);
        let holder = arrive(&fixture, &service, "holder").await;
        let other = arrive(&fixture, &service, "other").await;
        other.compound(vec![reclaim_complete()]).await.ok();
        Reclaiming {
            distant,
            service,
            holder,
            other,
            handle,
            _fixture: fixture,
        }
    }

    /// Sends a reclaim, which stands still in the file system.
    async fn stands_still(&self, reclaim: ArgOp4) -> JoinHandle<NfsStat4> {
        let slow = self.holder.with_session(2, 1 << 16).await;
        let sent = self.distant.sent.load(Ordering::SeqCst);
        let handle = self.handle.clone();
        let request = tokio::spawn(async move { slow.status_on(&handle, [reclaim]).await });
        self.distant.until_sent(sent + 1).await;
        request
    }

    /// The time of the grace period passes; the other client is there all the time.
    async fn time_is_over(&self) {
        for _ in 0..4 {
            pass(Limits::default().lease / 9 * 5);
            self.other.compound(Vec::new()).await.ok();
        }
    }

    /// Others are given nothing until the reclaim has ended.
    async fn ends_behind(self, reclaim: JoinHandle<NfsStat4>) {
        let ending = tokio::spawn(self.service.housekeep());
        let wanted = || lockt("other", NfsLockType4::Write, 0, 10);
        for _ in 0..20 {
            pause().await;
            let told = self.other.status_on(&self.handle, [wanted()]).await;
            assert_eq!(told, NfsStat4::Grace);
        }
        self.distant.way.add_permits(1);
        assert_eq!(reclaim.await.unwrap(), NfsStat4::Ok);
        ending.await.unwrap();
        assert!(!self.service.in_grace());
    }
}

fn previous(deny: u32) -> OpenArgs {
    OpenArgs {
        claim: OpenClaim4::Previous(OpenDelegationType4::None),
        share_deny: deny,
        ..open_args("opener", share::ACCESS_BOTH)
    }
}

/// The grace period ended between the look at it and the lock: others had the lock and gave it back, and then the reclaim was granted,
/// as if its client had had it all the time.
#[tokio::test]
async fn the_grace_period_lasts_as_long_as_the_reclaim_of_a_lock() {
    for completes in [false, true] {
        let scene = Reclaiming::new().await;
        scene.distant.way.add_permits(1);
        let open = ArgOp4::Open(previous(share::DENY_NONE));
        let reply = scene.holder.on(&scene.handle, [open]).await;
        let open = last!(reply, Open).stateid;
        scene.distant.far_locks.store(true, Ordering::SeqCst);
        let again = LockArgs {
            reclaim: true,
            ..first_lock(open, "locker", 0, 10)
        };
        let reclaim = scene.stands_still(ArgOp4::Lock(again)).await;
        match completes {
            true => scene.holder.compound(vec![reclaim_complete()]).await.ok(),
            false => scene.time_is_over().await,
        }
        scene.ends_behind(reclaim).await;
    }
}

#[tokio::test]
async fn the_grace_period_lasts_as_long_as_the_reclaim_of_an_open() {
    let scene = Reclaiming::new().await;
    let open = ArgOp4::Open(previous(share::DENY_BOTH));
    let reclaim = scene.stands_still(open).await;
    scene.time_is_over().await;
    scene.ends_behind(reclaim).await;
}

/// The record was written and then removed with those of the clients that had not come back, and the client went on without one: after
/// a crash it could reclaim nothing.
#[tokio::test]
async fn a_client_that_is_done_when_the_grace_period_ends_stays_on_record() {
    let fixture = Fixture::new();
    let records = Arc::new(MemoryRecords::default());
    let service = fixture.restarted_recording(records.clone(), &["late"]);
    let late = arrive(&fixture, &service, "late").await;
    let held = records.answers.lock().await;
    let completing = tokio::spawn({
        let late = late.clone();
        async move { late.compound(vec![reclaim_complete()]).await.status }
    });
    while records.owners().is_empty() {
        pause().await;
    }
    pass(Limits::default().grace);
    service.housekeep().await;
    drop(held);
    assert_eq!(completing.await.unwrap(), NfsStat4::Delay);
    late.compound(vec![reclaim_complete()]).await.ok();
    assert_eq!(records.owners(), [Arc::from(&b"late"[..])]);
}
