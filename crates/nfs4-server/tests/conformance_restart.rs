//! Requests that come again after a restart of the server: what was carried out is answered as it was, and nothing is
//! carried out twice (RFC 8881, section 2.10.6.5).

use std::sync::Arc;

use crate::fixture::operations::*;
use crate::fixture::sessions::*;
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, Successful, encoded, go_to, last, mode, statuses};
use nfs4::{
    ArgOp4, Attr, Bitmap4, CompoundRes, CreateHow4, CreateType4, NfsStat4, OpenArgs, OpenClaim4,
    OpenDelegationType4, OpenFlag4, SessionId4, SetxattrOption4, StableHow4, Stateid4,
    create_session as flag, share,
};
use nfs4_server::{Limits, Service};
use xdr::Bytes;

/// A request of a session, as it is sent once and again.
fn request(session: SessionId4, number: u32, ops: Vec<ArgOp4>) -> Vec<ArgOp4> {
    let sequence = ArgOp4::Sequence(sequence(session, number));
    [vec![sequence], ops].concat()
}

/// A client with a session and the tree that requests work on, and the same client towards a later start.
struct Restart {
    fixture: Fixture,
    before: Client,
    session: SessionId4,
}

impl Restart {
    async fn prepare() -> Restart {
        let fixture = Fixture::new();
        let before = fixture.client().await;
        before.make_directories("/export", &["directory"]).await;
        for name in ["old", "doomed", "linked", "guarded"] {
            before.make_file("/export", name).await;
        }
        let create = session_request(before.id, 2);
        let session = before.request_session(create).await.sessionid;
        Restart {
            fixture,
            before,
            session,
        }
    }

    /// A client that speaks to a service for which the session is unknown.
    fn towards(&self, service: &Arc<Service>) -> Client {
        Client::stranger(service.clone(), self.fixture.connection())
    }

    fn after(&self) -> Client {
        self.towards(&self.fixture.restarted(&[]))
    }

    async fn send(&self, to: &Client, number: u32, ops: Vec<ArgOp4>) -> CompoundRes {
        to.without_session(request(self.session, number, ops)).await
    }
}

fn guarded(name: &str) -> OpenArgs {
    OpenArgs {
        openhow: OpenFlag4::Create(CreateHow4::Guarded(mode(0o644))),
        ..make_args("opener", name)
    }
}

/// Requests that would fail, or do harm, the second time.
async fn changes(client: &Client) -> Vec<(&'static str, Vec<ArgOp4>)> {
    let at = |ops: Vec<ArgOp4>| [go_to("/export"), ops].concat();
    let version = client.attributes("/export/guarded", &[Attr::Change]).await;
    let stateid = Stateid4::ANONYMOUS;
    vec![
        (
            "mkdir",
            at(vec![
                create(CreateType4::Dir, "made", mode(0o755)),
                getfh(),
                getattr(Bitmap4::of(&[Attr::Fileid, Attr::Type])),
            ]),
        ),
        ("remove", at(vec![remove("doomed")])),
        ("rename", at(vec![savefh(), rename("old", "new")])),
        (
            "link",
            [
                go_to("/export/linked"),
                vec![savefh()],
                at(vec![link("second")]),
            ]
            .concat(),
        ),
        (
            "set a guarded mode",
            [
                go_to("/export/guarded"),
                vec![verify(encoded(&version)), setattr(stateid, mode(0o600))],
            ]
            .concat(),
        ),
        (
            "set an extended attribute",
            [
                go_to("/export/linked"),
                vec![setxattr(SetxattrOption4::Create, "x", b"value")],
            ]
            .concat(),
        ),
    ]
}

#[tokio::test]
async fn what_was_carried_out_is_answered_as_it_was_after_a_restart() {
    let restart = Restart::prepare().await;
    for (number, (what, ops)) in (1..).zip(changes(&restart.before).await) {
        let told = restart.send(&restart.before, number, ops.clone()).await;
        assert_eq!(told.status, NfsStat4::Ok, "{what}: {told:?}");
        let after = restart.after();
        for attempt in 0..2 {
            let again = restart.send(&after, number, ops.clone()).await;
            let (told, again) = (&told.results[1..], &again.results[1..]);
            assert_eq!(again, told, "{what}, attempt {attempt}");
        }
    }
}

#[tokio::test]
async fn another_server_that_has_the_change_answers_too() {
    let restart = Restart::prepare().await;
    let other = restart.towards(&restart.fixture.among_others(9));
    for (number, (what, ops)) in (1..).zip(changes(&restart.before).await) {
        let told = restart.send(&restart.before, number, ops.clone()).await;
        let again = restart.send(&other, number, ops).await;
        assert_eq!(again.results[1..], told.results[1..], "{what}");
    }
}

#[tokio::test]
async fn what_was_not_carried_out_is_not_now() {
    let restart = Restart::prepare().await;
    let (before, after) = (&restart.before, restart.after());
    let mkdir = |name: &str| {
        let create = create(CreateType4::Dir, name, mode(0o755));
        [go_to("/export"), vec![create]].concat()
    };
    let session_is_gone = |reply: CompoundRes| {
        assert_eq!(statuses(&reply), [NfsStat4::BadSession], "{reply:?}");
    };
    restart.send(before, 1, mkdir("made")).await.ok();
    // The next one of the slot, one that failed, something else under the same name, and somebody else.
    session_is_gone(restart.send(&after, 2, mkdir("next")).await);
    let failed = restart.send(before, 2, mkdir("directory")).await;
    assert_eq!(failed.status, NfsStat4::Exist);
    session_is_gone(restart.send(&after, 2, mkdir("directory")).await);
    restart.send(before, 3, mkdir("third")).await.ok();
    session_is_gone(restart.send(&after, 3, mkdir("other")).await);
    let somebody = after.as_user(1, 1, &[]);
    session_is_gone(restart.send(&somebody, 3, mkdir("third")).await);
    // Reads and writes are repeated in a new session without harm.
    let read = [
        go_to("/export/linked"),
        vec![read(Stateid4::ANONYMOUS, 0, 1)],
    ]
    .concat();
    session_is_gone(restart.send(&after, 4, read).await);
    let data = Bytes::from_static(b"x");
    let write = write(Stateid4::ANONYMOUS, 0, StableHow4::FileSync, data);
    session_is_gone(
        restart
            .send(&after, 4, [go_to("/export/linked"), vec![write]].concat())
            .await,
    );
    restart.send(&after, 3, mkdir("third")).await.ok();
    for absent in ["next", "other"] {
        let path = format!("/export/{absent}");
        assert_eq!(before.status_at(&path, []).await, NfsStat4::NoEnt);
    }
}

#[tokio::test]
async fn what_a_request_had_not_reached_is_not_carried_out_later() {
    let restart = Restart::prepare().await;
    let make = |name| create(CreateType4::Dir, name, mode(0o755));
    let ops = [
        go_to("/export"),
        vec![make("first"), lookupp(), make("directory"), getfh()],
    ]
    .concat();
    let told = restart.send(&restart.before, 1, ops.clone()).await;
    assert_eq!(told.status, NfsStat4::Exist);
    let again = restart.send(&restart.after(), 1, ops).await;
    assert_eq!(again.status, NfsStat4::DeadSession);
    assert_eq!(again.results.len(), told.results.len());
    let done = told.results.len() - 1;
    assert_eq!(again.results[1..done], told.results[1..done]);
}

/// Once a repeated mkdir made the directory anew that somebody else had removed meanwhile.
#[tokio::test]
async fn what_was_made_and_removed_since_is_not_made_again() {
    let restart = Restart::prepare().await;
    let mkdir = create(CreateType4::Dir, "made", mode(0o755));
    let open = ArgOp4::Open(guarded("file"));
    for (number, name, make) in [(1, "made", mkdir), (2, "file", open)] {
        let look = getattr(Bitmap4::of(&[Attr::Fileid]));
        let ops = [go_to("/export"), vec![make, getfh(), look]].concat();
        let told = restart.send(&restart.before, number, ops.clone()).await;
        assert_eq!(told.status, NfsStat4::Ok, "{told:?}");
        let other = restart.fixture.client().await;
        if name == "file" {
            let handle = other.handle("/export/file").await;
            let Some(nfs4::ResOp4::Open(Ok(opened))) = told.results.iter().nth_back(2) else {
                panic!("not opened: {told:?}");
            };
            restart
                .before
                .on(&handle, [close(opened.stateid)])
                .await
                .ok();
        }
        other.at("/export", [remove(name)]).await.ok();
        let again = restart.send(&restart.after(), number, ops).await;
        // The same as then, until it comes to what the object is now.
        assert_eq!(again.status, NfsStat4::Stale, "{again:?}");
        assert_eq!(again.results.len(), told.results.len());
        let last = told.results.len() - 1;
        let (again, told) = (
            &again.results[last - 1..last],
            &told.results[last - 1..last],
        );
        assert_eq!(again, told, "the handle");
        let path = format!("/export/{name}");
        assert_eq!(other.status_at(&path, []).await, NfsStat4::NoEnt);
    }
}

#[tokio::test]
async fn two_changes_of_one_request_are_both_answered() {
    let restart = Restart::prepare().await;
    let make = |name| create(CreateType4::Dir, name, mode(0o755));
    let ops = [
        go_to("/export"),
        vec![make("first"), make("second"), getfh()],
    ]
    .concat();
    let told = restart.send(&restart.before, 1, ops.clone()).await;
    told.ok();
    let again = restart.send(&restart.after(), 1, ops).await;
    assert_eq!(again.results[1..], told.results[1..]);
}

#[tokio::test]
async fn a_file_that_was_made_by_open_is_not_made_again_and_its_open_is_reclaimed() {
    let restart = Restart::prepare().await;
    let ops = [
        go_to("/export"),
        vec![ArgOp4::Open(guarded("made")), getfh()],
    ]
    .concat();
    let told = restart.send(&restart.before, 1, ops.clone()).await;
    let handle = last!(told, Getfh).object;
    let owner = "client 1";
    let service = restart.fixture.restarted(&[owner]);
    let again = restart.send(&restart.towards(&service), 1, ops).await;
    assert_eq!(last!(again, Getfh).object, handle);
    let opened = again.results.iter().rev().nth(1);
    let Some(nfs4::ResOp4::Open(Ok(opened))) = opened else {
        panic!("no successful OPEN: {opened:?}");
    };

    let client = restart.towards(&service);
    let known = client.introduce(introduction(owner)).await;
    let create = session_request(known.clientid, known.sequenceid);
    let client = client.in_session(client.request_session(create).await.sessionid);
    let data = Bytes::from_static(b"x");
    let by_it = write(opened.stateid, 0, StableHow4::FileSync, data.clone());
    let refused = client.status_on(&handle, [by_it]).await;
    assert_eq!(refused, NfsStat4::BadStateid);
    let previous = OpenArgs {
        claim: OpenClaim4::Previous(OpenDelegationType4::None),
        ..open_args("opener", share::ACCESS_BOTH)
    };
    let reclaimed = client.on(&handle, [ArgOp4::Open(previous)]).await;
    let stateid = last!(reclaimed, Open).stateid;
    let by_it = write(stateid, 0, StableHow4::FileSync, data);
    client.on(&handle, [by_it]).await.ok();
}

#[tokio::test]
async fn a_session_persists_when_its_client_asks_for_it() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    for (sequence, flags) in [(2, 0), (3, flag::PERSIST)] {
        let create = nfs4::CreateSessionArgs {
            flags,
            ..session_request(client.id, sequence)
        };
        assert_eq!(client.request_session(create).await.flags, flags);
    }
    let (fixture, _distant) = Fixture::with_distant_opens(Limits::default());
    let client = fixture.client().await;
    let create = nfs4::CreateSessionArgs {
        flags: flag::PERSIST,
        ..session_request(client.id, 2)
    };
    let granted = client.request_session(create).await.flags;
    assert_eq!(granted, 0, "this file system keeps nothing");
}
