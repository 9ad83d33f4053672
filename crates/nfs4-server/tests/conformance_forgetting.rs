//! What requests have done is forgotten when nobody repeats them any more, and not before.

use std::sync::Arc;
use std::time::Duration;

use crate::fixture::operations::*;
use crate::fixture::sessions::*;
use crate::fixture::{Client, Fixture, Plan, Successful, go_to, mode, pass, statuses};
use nfs4::{ArgOp4, CreateType4, NfsStat4, SessionId4, Verifier4};
use nfs4_server::{Limits, Service};

/// What is on record of sessions that a server does not know stays for so long at least, and twice as long at most.
const KEPT: Duration = Duration::from_secs(3600);

/// A request of a session that was carried out once.
struct Done {
    fixture: Fixture,
    client: Client,
    session: SessionId4,
    ops: Vec<ArgOp4>,
}

impl Done {
    async fn with(limits: Limits) -> Done {
        let fixture = Fixture::with_limits(vec![Plan::open("/export")], limits);
        let client = fixture.client().await;
        let create = session_request(client.id, 2);
        let session = client.request_session(create).await.sessionid;
        let mkdir = create_directory("made");
        let sequence = ArgOp4::Sequence(sequence(session, 1));
        let ops = [vec![sequence], go_to("/export"), vec![mkdir]].concat();
        client.without_session(ops.clone()).await.ok();
        Done {
            fixture,
            client,
            session,
            ops,
        }
    }

    /// Whether a service for which the session is unknown answers the request as it was answered.
    async fn is_on_record(&self, service: &Arc<Service>) -> bool {
        let client = Client::stranger(service.clone(), self.fixture.connection());
        let reply = client.without_session(self.ops.clone()).await;
        match reply.status {
            NfsStat4::Ok => true,
            _ => {
                assert_eq!(statuses(&reply), [NfsStat4::BadSession], "{reply:?}");
                false
            }
        }
    }

    async fn is_on_record_after_a_restart(&self) -> bool {
        self.is_on_record(&self.fixture.restarted(&[])).await
    }
}

fn create_directory(name: &str) -> ArgOp4 {
    create(CreateType4::Dir, name, mode(0o755))
}

#[tokio::test]
async fn it_goes_when_the_session_is_destroyed() {
    let done = Done::with(Limits::default()).await;
    done.fixture.service.housekeep().await;
    assert!(done.is_on_record_after_a_restart().await);
    let end = vec![destroy_session(done.session)];
    done.client.without_session(end).await.ok();
    done.fixture.service.housekeep().await;
    assert!(!done.is_on_record(&done.fixture.service).await);
    assert!(!done.is_on_record_after_a_restart().await);
}

#[tokio::test]
async fn it_goes_when_the_client_is_started_anew() {
    let done = Done::with(Limits::default()).await;
    let mut anew = introduction("client 1");
    anew.clientowner.verifier = Verifier4([8; 8]);
    let known = done.client.introduce(anew).await;
    done.fixture.service.housekeep().await;
    assert!(done.is_on_record_after_a_restart().await, "not confirmed");
    let session = session_request(known.clientid, known.sequenceid);
    done.client.request_session(session).await;
    done.fixture.service.housekeep().await;
    assert!(!done.is_on_record(&done.fixture.service).await);
}

/// A client that was cut off for longer than its lease is answered all the same, for some time.
#[tokio::test]
async fn it_goes_some_time_after_the_client_has_expired() {
    let done = Done::with(Limits::default()).await;
    let service = &done.fixture.service;
    pass(Limits::default().lease + Duration::from_secs(1));
    service.housekeep().await;
    assert_eq!(service.counts().sessions, 0);
    assert!(done.is_on_record(service).await);
    pass(KEPT);
    service.housekeep().await;
    assert!(done.is_on_record(service).await);
    pass(KEPT);
    service.housekeep().await;
    assert!(!done.is_on_record(service).await);
}

#[tokio::test]
async fn it_goes_some_time_after_a_restart() {
    let done = Done::with(Limits::default()).await;
    let service = done.fixture.restarted(&[]);
    for _ in 0..2 {
        service.housekeep().await;
        assert!(done.is_on_record(&service).await);
        pass(KEPT);
    }
    service.housekeep().await;
    assert!(!done.is_on_record(&service).await);
}

#[tokio::test]
async fn it_stays_while_the_session_is_known() {
    let limits = Limits {
        lease: KEPT * 10,
        ..Limits::default()
    };
    let done = Done::with(limits).await;
    for _ in 0..4 {
        pass(KEPT);
        done.fixture.service.housekeep().await;
    }
    assert!(done.is_on_record_after_a_restart().await);
}
