//! What a client is told that has as many opens as it, or the file, may have (RFC 8881, section 15.2).

use crate::fixture::operations::*;
use crate::fixture::state::*;
use crate::fixture::{Client, Fixture, Plan, encoded, mode};
use nfs4::{
    ArgOp4, Attr, Attributes4, CreateHow4, Fattr4, NfsStat4, OpenArgs, OpenFlag4, Stateid4, share,
};
use nfs4_server::Limits;
use xdr::Bytes;

/// As many owners as one file may have: the next owner was told to wait, for as long as the others had it open.
#[tokio::test]
async fn who_would_be_one_too_many_at_a_file_gets_an_error_and_need_not_wait() {
    const OWNERS: u64 = 16_384;
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let (file, _) = client.open_new("file").await;
    let opening = |number: u64| {
        let args = open_args(&format!("owner {number}"), share::ACCESS_READ);
        client.open_at("/export/file", args)
    };
    let (_, first) = opening(1).await;
    for number in 2..OWNERS {
        opening(number).await;
    }
    let one_more = open_args("one more", share::ACCESS_READ);
    let try_it = || client.status_at("/export/file", [ArgOp4::Open(one_more.clone())]);
    assert_eq!(try_it().await, NfsStat4::ServerFault);
    // Those who have it open go on, and a place that becomes free is given away.
    opening(2).await;
    assert_eq!(client.status_on(&file, [close(first)]).await, NfsStat4::Ok);
    assert_eq!(try_it().await, NfsStat4::Ok);
}

/// A client was told to wait for what it held itself.
#[tokio::test]
async fn a_client_with_as_many_opens_as_it_may_have_gets_an_error() {
    let limits = Limits {
        states_per_client: 2,
        ..Limits::default()
    };
    let fixture = Fixture::with_limits(vec![Plan::open("/export")], limits);
    let (client, other) = (fixture.client().await, fixture.client().await);
    let (file, open) = client.open_new("first").await;
    client.open_new("second").await;
    let third = || [ArgOp4::Open(make_args("opener", "third"))];
    let refused = client.status_at("/export", third()).await;
    assert_eq!(refused, NfsStat4::ServerFault);
    assert_eq!(other.status_at("/export", third()).await, NfsStat4::Ok);
    assert_eq!(client.status_on(&file, [close(open)]).await, NfsStat4::Ok);
    assert_eq!(client.status_at("/export", third()).await, NfsStat4::Ok);
}

/// One client may have two opens.
fn with_space_for_two() -> Fixture {
    let limits = Limits {
        states_per_client: 2,
        ..Limits::default()
    };
    Fixture::with_limits(vec![Plan::open("/export")], limits)
}

/// So little memory that a few hundred opens with long names of owners take all of it.
fn with_little_memory() -> Fixture {
    let limits = Limits {
        memory_bytes: 2 << 20,
        slots: 1,
        cached_response_bytes: 4096,
        ..Limits::default()
    };
    Fixture::with_limits(vec![Plan::open("/export")], limits)
}

/// Opens with ever other owners until there is no memory for one more.
async fn use_up_memory(client: &Client) -> Vec<Stateid4> {
    let mut opened = Vec::new();
    for number in 0..10_000 {
        let args = open_args(&format!("{number:01000}"), share::ACCESS_READ);
        let mut reply = client.at("/export/there", [ArgOp4::Open(args)]).await;
        match reply.results.pop() {
            Some(nfs4::ResOp4::Open(Ok(open))) => opened.push(open.stateid),
            other => {
                assert_eq!(other.map(|op| op.status()), Some(NfsStat4::Delay));
                return opened;
            }
        }
    }
    panic!("memory is never used up");
}

fn emptied() -> Fattr4 {
    encoded(&Attributes4 {
        size: Some(0),
        ..Attributes4::default()
    })
}

fn how(create: CreateHow4, owner: &str, name: &str) -> OpenArgs {
    OpenArgs {
        openhow: OpenFlag4::Create(create),
        ..make_args(owner, name)
    }
}

/// All ways to make a file.
fn makers(name: &str) -> [OpenArgs; 4] {
    let verifier = nfs4::Verifier4([7; 8]);
    let both = nfs4::CreateVerfAttr {
        verf: verifier,
        attrs: mode(0o644),
    };
    [
        CreateHow4::Unchecked(mode(0o644)),
        CreateHow4::Guarded(mode(0o644)),
        CreateHow4::Exclusive(verifier),
        CreateHow4::Exclusive41(both),
    ]
    .map(|create| how(create, "opener", name))
}

/// The file was there although the program had been told that it was not made, and `O_EXCL` failed from then on.
#[tokio::test]
async fn an_open_that_is_one_too_many_makes_no_file() {
    let fixture = with_space_for_two();
    let client = fixture.client().await;
    let (_, first) = client.open_new("first").await;
    let (second, _) = client.open_new("second").await;
    for maker in makers("third") {
        let refused = client.status_at("/export", [ArgOp4::Open(maker)]).await;
        assert_eq!(refused, NfsStat4::ServerFault);
        let found = client.status_at("/export/third", [getfh()]).await;
        assert_eq!(found, NfsStat4::NoEnt);
    }
    // An owner who has the file open needs no other open.
    let again = [ArgOp4::Open(make_args("opener", "second"))];
    assert_eq!(client.status_at("/export", again).await, NfsStat4::Ok);
    let guarded = how(CreateHow4::Guarded(mode(0o644)), "opener", "second");
    let taken = client.status_at("/export", [ArgOp4::Open(guarded)]).await;
    assert_eq!(taken, NfsStat4::Exist);
    let stale = [close(first)];
    let other = client.status_on(&second, stale).await;
    assert_eq!(other, NfsStat4::BadStateid);
    let closed = client.status_at("/export/first", [close(first)]).await;
    assert_eq!(closed, NfsStat4::Ok);
    for (number, maker) in makers("third").into_iter().enumerate() {
        let name = format!("new {number}");
        let maker = OpenArgs {
            claim: nfs4::OpenClaim4::Null(name.as_str().into()),
            ..maker
        };
        let ops = [ArgOp4::Open(maker), close(Stateid4::CURRENT)];
        assert_eq!(client.status_at("/export", ops).await, NfsStat4::Ok);
    }
}

/// A program that opened a file with `O_TRUNC` got an error, and the content was gone.
#[tokio::test]
async fn an_open_that_is_one_too_many_empties_no_file() {
    let fixture = with_space_for_two();
    let client = fixture.client().await;
    let (there, open) = client.open_new("there").await;
    let content = Bytes::from_static(b"content");
    let written = write(open, 0, nfs4::StableHow4::FileSync, content);
    assert_eq!(client.status_on(&there, [written]).await, NfsStat4::Ok);
    client.open_new("second").await;
    let empty = |owner| how(CreateHow4::Unchecked(emptied()), owner, "there");
    let refused = client.status_at("/export", [ArgOp4::Open(empty("other"))]);
    assert_eq!(refused.await, NfsStat4::ServerFault);
    let size = || client.attributes("/export/there", &[Attr::Size]);
    assert_eq!(size().await.size, Some(7));
    // Who has it open may.
    let done = client.status_at("/export", [ArgOp4::Open(empty("opener"))]);
    assert_eq!(done.await, NfsStat4::Ok);
    assert_eq!(size().await.size, Some(0));
}

/// Who was told to come again, for want of memory, had made the file, and was told then that it exists.
#[tokio::test]
async fn an_open_that_has_to_wait_for_memory_makes_and_empties_nothing() {
    let fixture = with_little_memory();
    let client = fixture.client().await;
    let (there, open) = client.open_new("there").await;
    let content = Bytes::from_static(b"content");
    let written = write(open, 0, nfs4::StableHow4::FileSync, content);
    assert_eq!(client.status_on(&there, [written]).await, NfsStat4::Ok);
    let held = use_up_memory(&client).await;
    for maker in makers("new") {
        let refused = client.status_at("/export", [ArgOp4::Open(maker)]).await;
        assert_eq!(refused, NfsStat4::Delay);
        let found = client.status_at("/export/new", [getfh()]).await;
        assert_eq!(found, NfsStat4::NoEnt);
    }
    let empty = how(CreateHow4::Unchecked(emptied()), "other", "there");
    let refused = client.status_at("/export", [ArgOp4::Open(empty)]).await;
    assert_eq!(refused, NfsStat4::Delay);
    let size = client.attributes("/export/there", &[Attr::Size]).await;
    assert_eq!(size.size, Some(7));
    let refused = ArgOp4::Lock(first_lock(open, "locker", 0, 10));
    assert_eq!(client.status_on(&there, [refused]).await, NfsStat4::Delay);
    let free = lockt("somebody", nfs4::NfsLockType4::Write, 0, 10);
    assert_eq!(client.status_on(&there, [free]).await, NfsStat4::Ok);
    // Nothing is kept for those who were refused: as soon as somebody closes, one more can be had.
    for stateid in held.into_iter().take(2) {
        assert_eq!(
            client.status_on(&there, [close(stateid)]).await,
            NfsStat4::Ok
        );
    }
    client
        .lock_on(&there, first_lock(open, "locker", 0, 10))
        .await;
    let guarded = how(CreateHow4::Guarded(mode(0o644)), "opener", "new");
    let made = client.status_at("/export", [ArgOp4::Open(guarded)]).await;
    assert_eq!(made, NfsStat4::Ok);
}

/// A lock-owner who came with an open-owner's stateid once more was counted twice.
#[tokio::test]
async fn an_owner_of_locks_needs_one_state_for_a_file_however_often_it_comes_as_a_new_one() {
    let fixture = with_space_for_two();
    let client = fixture.client().await;
    let (file, open) = client.open_new("file").await;
    client.lock_on(&file, first_lock(open, "one", 0, 1)).await;
    client.lock_on(&file, first_lock(open, "two", 1, 1)).await;
    client.lock_on(&file, first_lock(open, "two", 2, 1)).await;
    let third = ArgOp4::Lock(first_lock(open, "three", 3, 1));
    assert_eq!(
        client.status_on(&file, [third]).await,
        NfsStat4::ServerFault
    );
    let free = lockt("somebody", nfs4::NfsLockType4::Write, 3, 1);
    assert_eq!(client.status_on(&file, [free]).await, NfsStat4::Ok);
}
