//! A file system that asks another site takes its time: nobody but those who asked waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fixture::distant::{Distant, FAR_VERIFIER};
use crate::fixture::operations::{access, create, getattr, getfh, lookup, setattr};
use crate::fixture::sessions::{
    exchange_id, introduction, reclaim_complete, sequence, session_request,
};
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, Successful, encoded, go_to, last, mode, statuses};
use nfs4::{
    AllocateArgs, ArgOp4, Attr, Attributes4, Bitmap4, CloseArgs, CommitArgs, CompoundRes,
    CreateType4, NfsFh4, NfsStat4, OpenClaim4, ReaddirArgs, ResOp4, StableHow4, Verifier4,
    WriteArgs, share,
};
use nfs4_server::{ClientId, Limits};
use xdr::Bytes;

async fn read_attributes(client: &Client) {
    client.attributes("/export/file", &[nfs4::Attr::Size]).await;
}

/// Opens the file, in a task of its own.
fn opening(client: Client, owner: &'static str) -> tokio::task::JoinHandle<nfs4::Stateid4> {
    let open = async move {
        let args = open_args(owner, share::ACCESS_BOTH);
        client.open_at("/export/file", args).await.1
    };
    tokio::spawn(open)
}

async fn with_file() -> (Fixture, Arc<Distant>, Client) {
    let (fixture, distant) = Fixture::with_distant_opens(Limits::default());
    let client = fixture.client().await;
    distant.way.add_permits(2);
    client.make_file("/export", "file").await;
    (fixture, distant, client)
}

#[tokio::test]
async fn clients_that_open_one_file_do_not_wait_for_each_other() {
    let (fixture, distant, _) = with_file().await;
    let sent = distant.sent.load(Ordering::SeqCst);
    let mut openings = Vec::new();
    for number in 1..=10 {
        let client = fixture.client().await;
        openings.push(opening(client, "opener"));
        // All of them are on their way though none has been answered.
        distant.until_sent(sent + number).await;
    }
    distant.way.add_permits(10);
    for opening in openings {
        opening.await.expect("opened");
    }
}

#[tokio::test]
async fn a_client_goes_on_while_an_open_of_its_own_is_far_away() {
    let (_fixture, distant, client) = with_file().await;
    let sent = distant.sent.load(Ordering::SeqCst);
    let slow = client.with_session(2, 1 << 16).await;
    let opening = opening(slow, "opener");
    distant.until_sent(sent + 1).await;
    for _ in 0..100 {
        read_attributes(&client).await;
    }
    distant.way.add_permits(1);
    opening.await.expect("opened");
}

/// A client whose request takes longer than its lease keeps it: it waits for the server, not the other way
/// round.
#[tokio::test]
async fn a_lease_does_not_end_while_a_request_is_far_away() {
    let limits = Limits {
        lease: Duration::ZERO,
        ..Limits::default()
    };
    let (fixture, distant) = Fixture::with_distant_opens(limits);
    let client = fixture.client().await;
    let making = tokio::spawn(async move { client.open_new("file").await });
    distant.until_sent(1).await;
    fixture.service.housekeep().await;
    assert_eq!(fixture.service.counts().clients, 1);
    distant.way.add_permits(1);
    making.await.expect("made");
    assert_eq!(fixture.service.counts().opens, 1);
    distant.way.add_permits(1);
    fixture.service.housekeep().await;
    assert_eq!(fixture.service.counts().opens, 0, "silent ever since");
}

/// An open that was under way when its client was sent away took back, at its end, what the same client had opened since
/// under the same name.
#[tokio::test]
async fn who_was_sent_away_comes_back_when_its_requests_have_ended() {
    let (fixture, distant, client) = with_file().await;
    let sent = distant.sent.load(Ordering::SeqCst);
    let handle = client.handle("/export/file").await;
    let slow = client.with_session(2, 1 << 16).await;
    let opening = {
        let handle = handle.clone();
        let open = ArgOp4::Open(open_args("opener", share::ACCESS_BOTH));
        tokio::spawn(async move { slow.status_on(&handle, [open]).await })
    };
    distant.until_sent(sent + 1).await;
    let service = fixture.service.clone();
    let evicting = tokio::spawn(async move { service.evict(ClientId(client.id)).await });
    while fixture.service.counts().clients > 0 {
        tokio::task::yield_now().await;
    }
    let mut back = Client::stranger(fixture.service.clone(), fixture.connection());
    let mut same = introduction("client 1");
    same.clientowner.verifier = Verifier4([1; 8]);
    let asked = back.without_session(vec![exchange_id(same.clone())]).await;
    assert_eq!(asked.status, NfsStat4::Delay);
    // The open, and taking it back.
    distant.way.add_permits(2);
    assert_ne!(opening.await.expect("answered"), NfsStat4::Ok);
    assert!(evicting.await.expect("sent away"));
    let known = back.introduce(same).await;
    back.id = known.clientid;
    let back = back.with_session(known.sequenceid, 1 << 16).await;
    back.compound(vec![reclaim_complete()]).await.ok();
    distant.way.add_permits(1);
    back.open_at("/export/file", open_args("opener", share::ACCESS_BOTH))
        .await;
    assert_eq!(fixture.service.counts().opens, 1);
}

#[tokio::test]
async fn what_an_expired_client_held_is_let_go_side_by_side_and_asked_for_again() {
    const FILES: usize = 20;
    let limits = Limits {
        lease: Duration::ZERO,
        ..Limits::default()
    };
    let (fixture, distant) = Fixture::with_distant_opens(limits);
    let client = fixture.client().await;
    distant.way.add_permits(FILES);
    for number in 0..FILES {
        client.open_new(&format!("file {number}")).await;
    }
    distant.busy.store(1, Ordering::SeqCst);
    let sent = distant.sent.load(Ordering::SeqCst);
    let service = fixture.service.clone();
    let maintenance = tokio::spawn(async move { service.housekeep().await });
    distant.until_sent(sent + FILES).await;
    distant.way.add_permits(FILES + 1);
    maintenance.await.expect("housekeeping ends");
    let asked = distant.sent.load(Ordering::SeqCst) - sent;
    assert_eq!(asked, FILES + 1, "one was told to come again");
}

#[tokio::test]
async fn a_close_that_is_refused_for_now_leaves_the_open_as_it_was() {
    let (_fixture, distant, client) = with_file().await;
    distant.way.add_permits(3);
    let args = open_args("opener", share::ACCESS_BOTH);
    let (handle, open_stateid) = client.open_at("/export/file", args).await;
    let close = || {
        ArgOp4::Close(CloseArgs {
            seqid: 0,
            open_stateid,
        })
    };
    distant.busy.store(1, Ordering::SeqCst);
    assert_eq!(client.status_on(&handle, [close()]).await, NfsStat4::Delay);
    assert_eq!(client.status_on(&handle, [close()]).await, NfsStat4::Ok);
}

#[tokio::test]
async fn writes_and_commits_carry_the_verifier_of_the_site_that_holds_the_data() {
    let (_fixture, distant, client) = with_file().await;
    distant.way.add_permits(1);
    let args = open_args("opener", share::ACCESS_BOTH);
    let (handle, stateid) = client.open_at("/export/file", args).await;
    let write = ArgOp4::Write(WriteArgs {
        stateid,
        offset: 0,
        stable: StableHow4::Unstable,
        data: Bytes::from_static(b"far away"),
    });
    let reply = client.on(&handle, [write]).await;
    let verifier = Verifier4(FAR_VERIFIER.0);
    assert_eq!(last!(reply, Write).writeverf, verifier);
    let commit = ArgOp4::Commit(CommitArgs {
        offset: 0,
        count: 0,
    });
    let reply = client.on(&handle, [commit]).await;
    assert_eq!(last!(reply, Commit).writeverf, verifier);
}

/// Does a request on the directory of the file system, or on the file in it, and tells how often the other site was
/// asked for attributes meanwhile.
async fn questions(
    distant: &Distant,
    client: &Client,
    handle: &NfsFh4,
    ops: Vec<ArgOp4>,
) -> (usize, CompoundRes) {
    let before = distant.asked.load(Ordering::SeqCst);
    let reply = client.on(handle, ops).await;
    reply.ok();
    (distant.asked.load(Ordering::SeqCst) - before, reply)
}

fn sizes(reply: &CompoundRes) -> Vec<u64> {
    let found = reply.results.iter().filter_map(|result| match result {
        ResOp4::Getattr(Ok(found)) => Attributes4::decode(&found.obj_attributes).ok()?.size,
        _ => None,
    });
    found.collect()
}

#[tokio::test]
async fn a_request_asks_another_site_once_for_what_it_is_told_several_times() {
    let (_fixture, distant, client) = with_file().await;
    distant.way.add_permits(3);
    let directory = client.handle("/export").await;
    let file = client.handle("/export/file").await;
    let tell = || [getfh(), access(3), getattr(Bitmap4::of(&[Attr::Size]))];
    let opening = |args| [ArgOp4::Open(args)].into_iter().chain(tell()).collect();

    let making = opening(make_args("opener", "new"));
    let (asked, _) = questions(&distant, &client, &directory, making).await;
    assert_eq!(asked, 0, "what was made is known");

    let mut by_name = open_args("opener", share::ACCESS_BOTH);
    by_name.claim = OpenClaim4::Null("file".into());
    let (asked, _) = questions(&distant, &client, &directory, opening(by_name)).await;
    assert_eq!(asked, 1, "the directory's version");

    let again = opening(open_args("other", share::ACCESS_BOTH));
    let (asked, _) = questions(&distant, &client, &file, again).await;
    assert_eq!(asked, 0, "what was opened is known");

    let looking = [lookup("file")].into_iter().chain(tell()).collect();
    let (asked, _) = questions(&distant, &client, &directory, looking).await;
    assert_eq!(asked, 0, "what was found is known");

    let (asked, _) = questions(&distant, &client, &file, tell().into()).await;
    assert_eq!(asked, 1, "requests know nothing of each other");
}

#[tokio::test]
async fn what_a_request_changes_is_told_as_it_is_afterwards() {
    let (_fixture, distant, client) = with_file().await;
    distant.way.add_permits(1);
    let args = open_args("opener", share::ACCESS_BOTH);
    let (file, stateid) = client.open_at("/export/file", args).await;
    let size = || getattr(Bitmap4::of(&[Attr::Size]));
    let write = ArgOp4::Write(WriteArgs {
        stateid,
        offset: 0,
        stable: StableHow4::FileSync,
        data: Bytes::from_static(b"far away"),
    });
    let (asked, reply) = questions(&distant, &client, &file, vec![size(), write, size()]).await;
    assert_eq!((asked, sizes(&reply)), (1, vec![0, 8]));

    let shorter = encoded(&Attributes4 {
        size: Some(3),
        ..Attributes4::default()
    });
    let cut = setattr(stateid, shorter);
    let (asked, reply) = questions(&distant, &client, &file, vec![size(), cut, size()]).await;
    assert_eq!((asked, sizes(&reply)), (1, vec![8, 3]));

    // Nothing is told of the file here.
    let grow = ArgOp4::Allocate(AllocateArgs {
        stateid,
        offset: 0,
        length: 100,
    });
    let (asked, reply) = questions(&distant, &client, &file, vec![size(), grow, size()]).await;
    assert_eq!((asked, sizes(&reply)), (2, vec![3, 100]));
}

/// The other site has carried something out, and its answer is lost. The client is to ask again by the same name, so it must not
/// be told that the operation failed.
#[tokio::test]
async fn a_request_of_which_nobody_knows_the_outcome_comes_again_as_it_was() {
    let (_fixture, distant, client) = with_file().await;
    let session = client.request_session(session_request(client.id, 2)).await;
    let request = |number, name: &str| {
        let mut ops = vec![ArgOp4::Sequence(sequence(session.sessionid, number))];
        ops.extend(go_to("/export"));
        ops.push(create(CreateType4::Dir, name, mode(0o755)));
        ops
    };
    client.without_session(request(1, "first")).await.ok();
    distant.uncertain.store(2, Ordering::SeqCst);
    for _ in 0..2 {
        let put_off = client.without_session(request(2, "second")).await;
        assert_eq!(statuses(&put_off), [NfsStat4::Delay]);
    }
    client.without_session(request(2, "second")).await.ok();
    client.without_session(request(3, "third")).await.ok();

    // What may have read something else by then is not executed once more.
    distant.uncertain.store(1, Ordering::SeqCst);
    let mut ops = request(4, "fourth");
    ops.insert(3, ArgOp4::Readdir(readdir_args()));
    let failed = client.without_session(ops).await;
    assert_eq!(failed.status, NfsStat4::Delay);
    assert_eq!(failed.results.len(), 5);
}

/// After a restart a repeat waits for what the other site says, but not for ever: its client reclaims nothing meanwhile.
#[tokio::test]
async fn a_repeat_waits_a_while_for_what_nobody_can_tell() {
    let (fixture, distant, client) = with_file().await;
    let session = client.request_session(session_request(client.id, 2)).await;
    let mut ops = vec![ArgOp4::Sequence(sequence(session.sessionid, 1))];
    ops.extend(go_to("/export"));
    ops.push(create(CreateType4::Dir, "made", mode(0o755)));
    client.without_session(ops.clone()).await.ok();
    let at_once = Limits {
        lease: Duration::ZERO,
        ..Limits::default()
    };
    for (limits, expected) in [
        (Limits::default(), NfsStat4::Delay),
        (at_once, NfsStat4::BadSession),
    ] {
        let service = fixture.restarted_with(limits, &[]);
        let again = Client::stranger(service, fixture.connection());
        distant.uncertain.store(1, Ordering::SeqCst);
        let told = again.without_session(ops.clone()).await;
        assert_eq!(statuses(&told), [expected]);
        again.without_session(ops.clone()).await.ok();
    }
}

fn readdir_args() -> ReaddirArgs {
    ReaddirArgs {
        cookie: 0,
        cookieverf: Verifier4([0; 8]),
        dircount: 1000,
        maxcount: 4000,
        attr_request: Bitmap4::default(),
    }
}
