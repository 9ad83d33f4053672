//! How the server calls its clients: over which connection, in which minor version, under whose
//! credentials, and what SEQUENCE says when it cannot (RFC 8881, sections 2.10.3.1, 18.33, 18.46, 20.9, 20.11).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::fixture::sessions::*;
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, Successful, last};
use async_trait::async_trait;
use nfs4::callback::{CbArgOp4, CbCompoundArgs, CbResOp4, CbSequenceArgs, CbSequenceResOk};
use nfs4::{
    ArgOp4, Attr, BackchannelCtlArgs, CallbackSecParms4, ChannelDirFromClient4, CompoundRes,
    CreateSessionArgs, GssCbHandles4, NfsFh4, NfsLockType4, NfsStat4, RpcGssSvc, Stateid4,
    create_session as flag, seq4_status,
};
use nfs4_server::{CallbackError, ClientId, Connection, ConnectionId, Limits};
use oncrpc::{AuthSys, Credentials, Groups};
use tokio::sync::{Semaphore, mpsc};
use xdr::{Bytes, Reader, Rope, Writer};

/// What a client was called with.
#[derive(Debug)]
struct Call {
    connection: u64,
    program: u32,
    minor_version: u32,
    credentials: Credentials,
    sequence: CbSequenceArgs,
    lock_owner: Bytes,
}

/// A connection over which calls arrive at a test.
struct Line {
    id: u64,
    calls: mpsc::UnboundedSender<Call>,
    /// What CB_SEQUENCE answers; `None` for no answer at all.
    answer: Option<NfsStat4>,
    /// One permit is used up by each answer.
    patience: Arc<Semaphore>,
}

#[async_trait]
impl Connection for Line {
    fn id(&self) -> ConnectionId {
        ConnectionId(self.id)
    }

    fn peer(&self) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 700))
    }

    fn session_used(&self) {}

    async fn call_back(
        &self,
        program: u32,
        procedure: u32,
        credentials: &Credentials,
        arguments: Rope,
    ) -> Result<Bytes, CallbackError> {
        assert_eq!(procedure, 1);
        let mut call = CbCompoundArgs::parse(Reader::new(arguments.into_contiguous()))
            .expect("the call can be decoded");
        let Some(Ok(CbArgOp4::Sequence(sequence))) = call.next_op() else {
            panic!("no CB_SEQUENCE in front: {call:?}");
        };
        let Some(Ok(CbArgOp4::NotifyLock(lock))) = call.next_op() else {
            panic!("no CB_NOTIFY_LOCK: {call:?}");
        };
        let results = match self.answer.ok_or(CallbackError::TimedOut)? {
            NfsStat4::Ok => vec![
                CbResOp4::Sequence(Ok(CbSequenceResOk {
                    sessionid: sequence.sessionid,
                    sequenceid: sequence.sequenceid,
                    slotid: 0,
                    highest_slotid: 0,
                    target_highest_slotid: 0,
                })),
                CbResOp4::NotifyLock(NfsStat4::Ok),
            ],
            refusal => vec![CbResOp4::Sequence(Err(refusal))],
        };
        let reply = CompoundRes {
            status: results.last().map_or(NfsStat4::Ok, CbResOp4::status),
            tag: Bytes::new(),
            results,
        };
        let mut writer = Writer::new();
        writer.write(&reply);
        let call = Call {
            connection: self.id,
            program,
            minor_version: call.minorversion,
            credentials: credentials.clone(),
            sequence,
            lock_owner: lock.lock_owner.owner,
        };
        self.calls.send(call).expect("the test listens");
        let permit = self.patience.acquire().await;
        permit.expect("nobody closes it").forget();
        Ok(writer.finish().into_contiguous())
    }
}

/// A client that waits for locks of a file which another one holds.
struct Scene {
    fixture: Fixture,
    holder: Client,
    waiter: Client,
    calls: mpsc::UnboundedReceiver<Call>,
    sender: mpsc::UnboundedSender<Call>,
    patience: Arc<Semaphore>,
}

impl Scene {
    async fn new(minor_version: u32, answer: Option<NfsStat4>, wishes: CreateSessionArgs) -> Scene {
        Scene::over(Fixture::new(), minor_version, answer, wishes).await
    }

    async fn over(
        fixture: Fixture,
        minor_version: u32,
        answer: Option<NfsStat4>,
        wishes: CreateSessionArgs,
    ) -> Scene {
        let holder = fixture.client().await;
        let (sender, calls) = mpsc::unbounded_channel();
        let patience = Arc::new(Semaphore::new(100));
        let line = Line {
            id: 1001,
            calls: sender.clone(),
            answer,
            patience: patience.clone(),
        };
        let waiter = Client::stranger(fixture.service.clone(), open(&fixture, line));
        let waiter = waiter.with_minor_version(minor_version);
        let known = waiter.introduce(introduction("waiter")).await;
        let request = CreateSessionArgs {
            clientid: known.clientid,
            sequence: known.sequenceid,
            ..wishes
        };
        let waiter = waiter.in_session(waiter.request_session(request).await.sessionid);
        waiter.compound(vec![reclaim_complete()]).await.ok();
        Scene {
            fixture,
            holder,
            waiter,
            calls,
            sender,
            patience,
        }
    }

    /// One more connection of the waiter's.
    fn line(&self, id: u64) -> Client {
        let line = Line {
            id,
            calls: self.sender.clone(),
            answer: Some(NfsStat4::Ok),
            patience: self.patience.clone(),
        };
        self.waiter.over(open(&self.fixture, line))
    }

    /// The holder locks, the waiter is refused and says that it waits, the holder unlocks.
    async fn play(&mut self, lock_owner: &str) {
        let (handle, lock) = self.wait(lock_owner).await;
        self.holder.on(&handle, [locku(lock, 0, 10)]).await.ok();
    }

    /// The holder locks, the waiter is refused and says that it waits. Returns the file and the lock.
    async fn wait(&mut self, lock_owner: &str) -> (NfsFh4, Stateid4) {
        let (handle, held) = self.holder.open_new("file").await;
        let lock = self
            .holder
            .lock_on(&handle, first_lock(held, "holder", 0, 10))
            .await;
        let (_, opened) = self.waiter.open_at("/export", make_args("o", "file")).await;
        let mut wish = first_lock(opened, lock_owner, 5, 1);
        wish.locktype = NfsLockType4::WriteW;
        let refused = self.waiter.status_on(&handle, [ArgOp4::Lock(wish)]).await;
        assert_eq!(refused, NfsStat4::Denied);
        (handle, lock)
    }

    async fn flags(&self) -> u32 {
        let mut reply = self.waiter.compound_with_sequence(Vec::new()).await;
        reply.results.truncate(1);
        last!(reply, Sequence).status_flags
    }
}

fn open(fixture: &Fixture, line: Line) -> Arc<dyn Connection> {
    let line: Arc<dyn Connection> = Arc::new(line);
    fixture.service.connection_opened(line.clone());
    line
}

fn wishes(sec_parms: Vec<CallbackSecParms4>) -> CreateSessionArgs {
    CreateSessionArgs {
        flags: flag::CONN_BACK_CHAN,
        cb_program: 0x4000_0004,
        sec_parms,
        ..session_request(0, 0)
    }
}

fn user(uid: u32) -> AuthSys {
    AuthSys {
        stamp: 13,
        machinename: Bytes::from_static(b"client"),
        uid,
        gid: 19,
        gids: Groups::first_of(&[23]),
    }
}

fn gss() -> CallbackSecParms4 {
    CallbackSecParms4::Gss(GssCbHandles4 {
        service: RpcGssSvc::Privacy,
        handle_from_server: Bytes::from_static(b"ours"),
        handle_from_client: Bytes::from_static(b"theirs"),
    })
}

#[tokio::test]
async fn calls_come_in_the_minor_version_of_the_session() {
    for minor_version in [1, 2] {
        let mut scene = Scene::new(minor_version, Some(NfsStat4::Ok), wishes(vec![])).await;
        scene.play("lock").await;
        let call = scene.calls.recv().await.unwrap();
        assert_eq!(
            (call.program, call.minor_version),
            (0x4000_0004, minor_version)
        );
        assert_eq!(
            (call.connection, &call.lock_owner[..]),
            (1001, &b"lock"[..])
        );
        assert_eq!(call.sequence.sessionid, scene.waiter.session);
        assert_eq!((call.sequence.sequenceid, call.sequence.slotid), (1, 0));
        assert_eq!(call.credentials, Credentials::None);
    }
}

#[tokio::test]
async fn calls_come_under_the_first_credentials_that_can_be_used() {
    let sys = CallbackSecParms4::Sys(user(17));
    for offered in [
        vec![sys.clone()],
        vec![gss(), sys.clone(), CallbackSecParms4::None],
    ] {
        let mut scene = Scene::new(1, Some(NfsStat4::Ok), wishes(offered)).await;
        scene.play("lock").await;
        let call = scene.calls.recv().await.unwrap();
        assert_eq!(call.credentials, Credentials::Sys(user(17)));
    }
}

#[tokio::test]
async fn a_back_channel_that_cannot_be_used_is_not_granted() {
    let fixture = Fixture::new();
    let client = fixture.stranger();
    let known = client.introduce(introduction("kerberos")).await;
    let offers = [(gss(), 0), (CallbackSecParms4::None, flag::CONN_BACK_CHAN)];
    for (number, (offered, granted)) in (known.sequenceid..).zip(offers) {
        let request = CreateSessionArgs {
            clientid: known.clientid,
            sequence: number,
            ..wishes(vec![offered])
        };
        assert_eq!(client.request_session(request).await.flags, granted);
    }
}

#[tokio::test]
async fn backchannel_ctl_changes_program_and_credentials() {
    let mut scene = Scene::new(1, Some(NfsStat4::Ok), wishes(vec![])).await;
    let with = |sec_parms| {
        ArgOp4::BackchannelCtl(BackchannelCtlArgs {
            cb_program: 0x4000_0009,
            sec_parms,
        })
    };
    let unusable = scene.waiter.compound(vec![with(vec![gss()])]).await;
    assert_eq!(unusable.status, NfsStat4::NoEnt);
    let usable = with(vec![CallbackSecParms4::Sys(user(29))]);
    scene.waiter.compound(vec![usable]).await.ok();
    scene.play("lock").await;
    let call = scene.calls.recv().await.unwrap();
    assert_eq!(call.program, 0x4000_0009);
    assert_eq!(call.credentials, Credentials::Sys(user(29)));
}

#[tokio::test]
async fn numbers_go_up_with_every_call_that_was_executed() {
    let mut scene = Scene::new(1, Some(NfsStat4::Ok), wishes(vec![])).await;
    for number in 1..=3 {
        scene.play(&format!("lock {number}")).await;
        let call = scene.calls.recv().await.unwrap();
        assert_eq!(call.sequence.sequenceid, number);
    }
}

/// Those of a client that had gone were as many as are told of a file, and so nobody else was, for as long as the lock was held.
#[tokio::test]
async fn who_waits_for_a_client_that_has_gone_is_in_nobodys_way() {
    let mut scene = Scene::new(1, Some(NfsStat4::Ok), wishes(vec![])).await;
    let (handle, held) = scene.holder.open_new("file").await;
    let lock = first_lock(held, "holder", 0, 10);
    scene.holder.lock_on(&handle, lock).await;
    let gone = scene.fixture.client().await;
    let (_, opened) = gone.open_at("/export", make_args("o", "file")).await;
    for number in 0..100 {
        let mut wish = first_lock(opened, &number.to_string(), 5, 1);
        wish.locktype = NfsLockType4::WriteW;
        let refused = gone.status_on(&handle, [ArgOp4::Lock(wish)]).await;
        assert_eq!(refused, NfsStat4::Denied);
    }
    assert!(scene.fixture.service.evict(ClientId(gone.id)).await);
    scene.fixture.service.housekeep().await;
    scene.play("late").await;
    let call = tokio::time::timeout(Duration::from_secs(60), scene.calls.recv()).await;
    assert_eq!(
        &call.expect("the word comes").unwrap().lock_owner[..],
        b"late"
    );
}

/// Several processes of a client took turns at a lock; now and then all of them stood still until the client
/// asked again by itself after 30 seconds. Word for the second had been left out while that for the first
/// was still unanswered.
#[tokio::test]
async fn word_for_a_second_waiter_waits_until_the_first_is_answered() {
    let mut scene = Scene::new(1, Some(NfsStat4::Ok), wishes(vec![])).await;
    scene.patience.forget_permits(100);
    scene.play("first").await;
    assert_eq!(&scene.calls.recv().await.unwrap().lock_owner[..], b"first");
    scene.play("second").await;
    scene.play("third").await;
    assert!(scene.calls.try_recv().is_err(), "there is one slot only");
    scene.patience.add_permits(100);
    for (number, owner) in [(2, "second"), (3, "third")] {
        let call = scene.calls.recv();
        let call = tokio::time::timeout(Duration::from_secs(60), call).await;
        let call = call.expect("the word comes").unwrap();
        assert_eq!(&call.lock_owner[..], owner.as_bytes());
        assert_eq!(call.sequence.sequenceid, number);
    }
}

#[tokio::test]
async fn locks_that_change_at_another_site_are_told_to_those_who_wait() {
    let (fixture, distant) = Fixture::with_distant_opens(Limits::default());
    distant.way.add_permits(100);
    let mut scene = Scene::over(fixture, 1, Some(NfsStat4::Ok), wishes(vec![])).await;
    scene.wait("lock").await;
    let file = scene
        .holder
        .attributes("/export/file", &[Attr::Fileid])
        .await;
    let file = vfs::ObjectId::from_u64(file.fileid.expect("asked for"));
    distant.change_locks(file);
    assert_eq!(&scene.calls.recv().await.unwrap().lock_owner[..], b"lock");
}

#[tokio::test]
async fn a_refused_call_uses_no_number_up() {
    let refusal = Some(NfsStat4::Delay);
    let mut scene = Scene::new(1, refusal, wishes(vec![])).await;
    for _ in 0..2 {
        scene.play("lock").await;
        let call = scene.calls.recv().await.unwrap();
        assert_eq!(call.sequence.sequenceid, 1);
    }
    assert_eq!(scene.flags().await, 0);
}

#[tokio::test]
async fn a_connection_that_answers_nothing_is_reported_until_another_is_bound() {
    let mut scene = Scene::new(1, None, wishes(vec![])).await;
    assert_eq!(scene.flags().await, 0);
    scene.play("lock").await;
    // The call is made in a task of its own.
    let broken = seq4_status::CB_PATH_DOWN | seq4_status::CB_PATH_DOWN_SESSION;
    while scene.flags().await != broken {
        tokio::task::yield_now().await;
    }
    let second = scene.line(1002);
    let binding = bind(scene.waiter.session, ChannelDirFromClient4::BackOrBoth);
    second.without_session(vec![binding]).await.ok();
    assert_eq!(scene.flags().await, 0);
    scene.play("lock").await;
    assert_eq!(scene.calls.recv().await.unwrap().connection, 1002);
}

#[tokio::test]
async fn another_session_of_the_client_can_stand_in() {
    let scene = Scene::new(1, Some(NfsStat4::Ok), wishes(vec![])).await;
    let known = scene.waiter.introduce(introduction("waiter")).await;
    let second = CreateSessionArgs {
        clientid: known.clientid,
        sequence: known.sequenceid,
        ..wishes(vec![])
    };
    scene.line(1002).request_session(second).await;
    scene.fixture.service.connection_closed(ConnectionId(1001));
    assert_eq!(scene.flags().await, seq4_status::CB_PATH_DOWN_SESSION);
    scene.fixture.service.connection_closed(ConnectionId(1002));
    let broken = seq4_status::CB_PATH_DOWN | seq4_status::CB_PATH_DOWN_SESSION;
    assert_eq!(scene.flags().await, broken);
}

#[tokio::test]
async fn a_client_without_a_back_channel_is_not_told_that_it_is_broken() {
    let quiet = CreateSessionArgs {
        flags: 0,
        ..wishes(vec![])
    };
    let mut scene = Scene::new(1, Some(NfsStat4::Ok), quiet).await;
    scene.play("lock").await;
    assert_eq!(scene.flags().await, 0);
    assert!(scene.calls.try_recv().is_err());
}
