//! What holds for every COMPOUND: its header, numbers that are no operation, and how large a reply may be
//! (RFC 8881, sections 2.10.6.4, 14.5 and 16.2).

use crate::fixture::operations::*;
use crate::fixture::sessions::*;
use crate::fixture::state::make_args;
use crate::fixture::{Client, Fixture, Successful, go_to, last, statuses};
use nfs4::{ArgOp4, Attr, Bitmap4, ChannelAttrs4, NfsStat4, Opnum, SequenceArgs};

/// The attributes that every server has (RFC 8881, section 5.6), which take some space.
fn required() -> Bitmap4 {
    (0..=11).chain([19, 75]).collect()
}

/// A client with a session of its own making.
async fn client_with(fixture: &Fixture, fore_chan_attrs: ChannelAttrs4) -> Client {
    fixture.service.housekeep().await;
    let stranger = fixture.stranger();
    let known = stranger.introduce(introduction("someone")).await;
    let request = nfs4::CreateSessionArgs {
        fore_chan_attrs,
        ..session_request(known.clientid, known.sequenceid)
    };
    let client = stranger.in_session(stranger.request_session(request).await.sessionid);
    client.compound(vec![reclaim_complete()]).await.ok();
    client
}

#[tokio::test]
async fn a_request_without_operations_succeeds() {
    let fixture = Fixture::new();
    let reply = fixture.stranger().without_session(Vec::new()).await;
    assert_eq!((reply.status, reply.results.len()), (NfsStat4::Ok, 0));
}

#[tokio::test]
async fn tags_are_text() {
    let stranger = Fixture::new().stranger();
    for tag in ["", "tag", "\u{e9}\u{1f980}"] {
        let reply = stranger.tagged(tag.as_bytes(), Vec::new()).await;
        assert_eq!(reply.status, NfsStat4::Ok, "{tag}");
    }
    let malformed: [&[u8]; 6] = [
        b"\xff",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xef\xbf\xbe",
        b"\xe3\xc0\xc0",
        b"\xf0 ",
    ];
    for tag in malformed {
        let introduce = vec![exchange_id(introduction("x"))];
        let reply = stranger.tagged(tag, introduce).await;
        assert_eq!(reply.status, NfsStat4::Inval, "{tag:?}");
        assert!(reply.results.is_empty());
    }
}

#[tokio::test]
async fn other_minor_versions_are_refused_before_anything_else() {
    let stranger = Fixture::new().stranger();
    for minor_version in [0, 3, 50] {
        let client = stranger.with_minor_version(minor_version);
        for ops in [vec![putrootfh()], vec![ArgOp4::Illegal(0)]] {
            let reply = client.without_session(ops).await;
            assert_eq!(reply.status, NfsStat4::MinorVersMismatch);
            assert!(reply.results.is_empty());
        }
    }
}

#[tokio::test]
async fn what_is_no_operation_is_answered_as_illegal() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    let illegal = [0, 1, 2, 76, 200, u32::MAX].map(ArgOp4::Illegal);
    // Without its arguments, and without a session: the number alone decides.
    let of_minor_version_2 = [Opnum::Allocate, Opnum::Getxattr].map(ArgOp4::Unsupported);
    let client_1 = client.with_minor_version(1);
    for operation in illegal.into_iter().chain(of_minor_version_2) {
        for reply in [
            client_1.without_session(vec![operation.clone()]).await,
            client_1.compound(vec![operation.clone()]).await,
        ] {
            assert_eq!(reply.status, NfsStat4::OpIllegal, "{operation:?}");
            let number = reply.results.last().unwrap().opnum();
            assert_eq!(number, u32::from(Opnum::Illegal), "{operation:?}");
        }
    }
    let malformed = vec![ArgOp4::Unsupported(Opnum::Getxattr)];
    let reply = client.compound(malformed).await;
    assert_eq!(reply.status, NfsStat4::BadXdr);
}

#[tokio::test]
async fn operations_that_4_1_gave_up_are_not_supported() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    for number in [
        Opnum::OpenConfirm,
        Opnum::Renew,
        Opnum::Setclientid,
        Opnum::SetclientidConfirm,
        Opnum::ReleaseLockowner,
    ] {
        let reply = client.compound(vec![ArgOp4::Unsupported(number)]).await;
        assert_eq!(reply.status, NfsStat4::NotSupp, "{number:?}");
    }
}

#[tokio::test]
async fn everything_but_sessions_needs_a_session() {
    let fixture = Fixture::new();
    let client = fixture.client().await;
    for operation in [putrootfh(), lookup("x"), reclaim_complete()] {
        let reply = client.without_session(vec![operation]).await;
        assert_eq!(reply.status, NfsStat4::OpNotInSession);
    }
    let second = ArgOp4::Sequence(sequence(client.session, 9));
    let reply = client.compound(vec![second]).await;
    assert_eq!(reply.status, NfsStat4::SequencePos);
}

#[tokio::test]
async fn replies_stay_within_the_size_of_the_session() {
    let fixture = Fixture::new();
    let small = ChannelAttrs4 {
        maxresponsesize: 400,
        ..CHANNEL
    };
    let client = client_with(&fixture, small).await;
    let reply = client
        .compound(vec![putrootfh(), getattr(required())])
        .await;
    reply.ok();
    let mut ops = vec![putrootfh()];
    ops.extend((0..4).map(|_| getattr(required())));
    let reply = client.compound(ops).await;
    assert_eq!(reply.status, NfsStat4::RepTooBig);
}

#[tokio::test]
async fn what_changes_something_is_not_begun_without_space_for_its_result() {
    let fixture = Fixture::new();
    let small = ChannelAttrs4 {
        maxresponsesize: 256,
        ..CHANNEL
    };
    let client = client_with(&fixture, small).await;
    let size = Bitmap4::of(&[Attr::Size]);
    for padding in 0..12 {
        let name = format!("file {padding}");
        let mut ops = vec![putrootfh(), lookup("export")];
        ops.extend((0..padding).map(|_| access(1)));
        ops.push(ArgOp4::Open(make_args("owner", &name)));
        let reply = client.compound(ops).await;
        let exists = client
            .status_at("/export", [lookup(&*name), getattr(size)])
            .await;
        match reply.status {
            NfsStat4::Ok => assert_eq!(exists, NfsStat4::Ok),
            NfsStat4::RepTooBig => assert_eq!(exists, NfsStat4::NoEnt, "made and not told"),
            other => panic!("{other:?}"),
        }
    }
    let last = client.at("/export", [lookup("file 11")]).await;
    assert_eq!(last.status, NfsStat4::NoEnt, "the reply was never too big");
}

#[tokio::test]
async fn a_read_is_cut_to_what_the_session_allows() {
    let fixture = Fixture::new();
    let small = ChannelAttrs4 {
        maxresponsesize: 512,
        maxoperations: 64,
        ..CHANNEL
    };
    let client = client_with(&fixture, small).await;
    let (handle, stateid) = client.open_new("file").await;
    let data = xdr::Bytes::from(vec![1; 1000]);
    let write = write(stateid, 0, nfs4::StableHow4::FileSync, data);
    client.on(&handle, [write]).await.ok();
    let reply = client.on(&handle, [read(stateid, 0, 1000)]).await;
    let read_some = last!(reply, Read);
    assert!((1..512).contains(&read_some.data.len()) && !read_some.eof);
    let mut refused = false;
    for others in 0..30 {
        let ops = (0..others).map(|_| access(1));
        let reply = client
            .on(&handle, ops.chain([read(stateid, 0, 1000)]))
            .await;
        match reply.status {
            NfsStat4::Ok => assert!(!last!(reply, Read).data.is_empty(), "no progress"),
            NfsStat4::RepTooBig => refused = true,
            other => panic!("{other:?}"),
        }
    }
    assert!(refused, "the reply was never too big");
}

#[tokio::test]
async fn a_reply_that_cannot_be_kept_is_refused_by_sequence() {
    let fixture = Fixture::new();
    let forgetful = ChannelAttrs4 {
        maxresponsesize_cached: 10,
        ..CHANNEL
    };
    let client = client_with(&fixture, forgetful).await;
    let kept = sequence(client.session, 2);
    let reply = client.without_session(vec![ArgOp4::Sequence(kept)]).await;
    assert_eq!(statuses(&reply), [NfsStat4::RepTooBigToCache]);
    // The slot was not used up.
    let unkept = SequenceArgs {
        cachethis: false,
        ..kept
    };
    let ops = vec![ArgOp4::Sequence(unkept), putrootfh()];
    client.without_session(ops).await.ok();
}

#[tokio::test]
async fn requests_stay_within_size_and_number_of_operations() {
    let fixture = Fixture::new();
    let narrow = ChannelAttrs4 {
        maxrequestsize: 512,
        maxoperations: 4,
        ..CHANNEL
    };
    let client = client_with(&fixture, narrow).await;
    let with = |number, mut ops: Vec<ArgOp4>| {
        ops.insert(0, ArgOp4::Sequence(sequence(client.session, number)));
        client.without_session(ops)
    };
    let long = "x".repeat(600);
    let reply = with(2, vec![putrootfh(), lookup(&*long)]).await;
    assert_eq!(statuses(&reply), [NfsStat4::ReqTooBig]);
    let none = Bitmap4::EMPTY;
    let reply = with(2, vec![putrootfh(), getfh(), getattr(none), getattr(none)]).await;
    assert_eq!(statuses(&reply), [NfsStat4::TooManyOps]);
    with(2, vec![putrootfh(), getfh(), getattr(none)])
        .await
        .ok();
}

#[tokio::test]
async fn repeats_get_the_same_bytes_whatever_the_first_said() {
    let fixture = Fixture::new();
    let client = client_with(&fixture, CHANNEL).await;
    let requests = [
        vec![],
        vec![putrootfh()],
        vec![putrootfh(), lookup("")],
        vec![ArgOp4::Illegal(0)],
        [go_to("/export"), vec![ArgOp4::Open(make_args("o", "made"))]].concat(),
        [go_to("/export"), vec![savefh(), rename("", "x")]].concat(),
    ];
    for (number, ops) in (2..).zip(requests) {
        let first = ArgOp4::Sequence(sequence(client.session, number));
        let ops: Vec<ArgOp4> = std::iter::once(first).chain(ops).collect();
        let answered = client.without_session(ops.clone()).await;
        assert_eq!(client.without_session(ops).await, answered);
    }
}

#[tokio::test]
async fn sequence_alone_can_always_be_repeated() {
    let fixture = Fixture::new();
    let client = client_with(&fixture, CHANNEL).await;
    let unkept = |number| SequenceArgs {
        cachethis: false,
        ..sequence(client.session, number)
    };
    let alone = vec![ArgOp4::Sequence(unkept(2))];
    let first = client.without_session(alone.clone()).await;
    first.ok();
    assert_eq!(client.without_session(alone).await, first);
    let more = vec![ArgOp4::Sequence(unkept(3)), putrootfh()];
    client.without_session(more.clone()).await.ok();
    let reply = client.without_session(more).await;
    assert_eq!(statuses(&reply), [NfsStat4::RetryUncachedRep]);
}
