//! Clients and sessions from introduction to leave: EXCHANGE_ID, CREATE_SESSION, BIND_CONN_TO_SESSION,
//! SEQUENCE on several connections, DESTROY_SESSION, DESTROY_CLIENTID (RFC 8881, sections 18.34 to 18.37,
//! 18.46, 18.50).

use crate::fixture::operations::*;
use crate::fixture::sessions::*;
use crate::fixture::{Client, Fixture, Successful, last, statuses};
use nfs4::{
    ArgOp4, Bitmap4, ChannelAttrs4, ChannelDirFromClient4, ChannelDirFromServer4,
    CreateSessionArgs, CreateSessionResOk, ExchangeIdArgs, NfsStat4, SessionId4, StateProtect4A,
    StateProtectOps4, Verifier4, exchgid,
};

const UNKNOWN: SessionId4 = SessionId4([0xee; 16]);

/// A client with one session, whose EXCHANGE_ID and CREATE_SESSION were as common as can be.
async fn newcomer(fixture: &Fixture, owner: &str) -> (Client, CreateSessionResOk) {
    let client = fixture.stranger();
    let known = client.introduce(introduction(owner)).await;
    let request = session_request(known.clientid, known.sequenceid);
    let created = client.request_session(request).await;
    let mut client = client.in_session(created.sessionid);
    client.id = known.clientid;
    (client, created)
}

async fn status(client: &Client, operation: ArgOp4) -> NfsStat4 {
    client.without_session(vec![operation]).await.status
}

#[tokio::test]
async fn the_server_says_that_it_serves_without_pnfs() {
    let fixture = Fixture::new();
    let client = fixture.stranger();
    for flags in [0, exchgid::USE_NON_PNFS, exchgid::USE_PNFS_DS, 0x103] {
        let args = ExchangeIdArgs {
            flags,
            ..introduction("anyone")
        };
        let known = client.introduce(args).await;
        assert_eq!(known.flags & exchgid::MASK_PNFS, exchgid::USE_NON_PNFS);
        assert_eq!(known.flags & exchgid::CONFIRMED_R, 0);
    }
}

#[tokio::test]
async fn flags_that_no_client_may_set_are_refused() {
    let fixture = Fixture::new();
    let client = fixture.stranger().with_minor_version(1);
    for flags in [
        exchgid::SUPP_FENCE_OPS,
        8,
        0x0008_0000,
        exchgid::CONFIRMED_R,
    ] {
        let args = ExchangeIdArgs {
            flags,
            ..introduction("x")
        };
        let refused = status(&client, exchange_id(args)).await;
        assert_eq!(refused, NfsStat4::Inval, "{flags:#x}");
    }
    // Minor version 2 has one more (RFC 7862, section 14.1).
    let args = ExchangeIdArgs {
        flags: exchgid::SUPP_FENCE_OPS,
        ..introduction("x")
    };
    client.with_minor_version(2).introduce(args).await;
}

#[tokio::test]
async fn state_protection_needs_gss_and_is_refused_so_that_clients_go_on_without() {
    let fixture = Fixture::new();
    let args = ExchangeIdArgs {
        state_protect: StateProtect4A::MachCred(StateProtectOps4 {
            must_enforce: Bitmap4::EMPTY,
            must_allow: Bitmap4::EMPTY,
        }),
        ..introduction("kerberos")
    };
    let client = fixture.stranger();
    assert_eq!(status(&client, exchange_id(args)).await, NfsStat4::Inval);
}

#[tokio::test]
async fn a_client_is_the_same_over_every_connection() {
    let fixture = Fixture::new();
    let (client, _) = newcomer(&fixture, "trunked").await;
    let first = client.introduce(introduction("trunked")).await;
    let second = client
        .over(fixture.connection())
        .introduce(introduction("trunked"))
        .await;
    assert_eq!(first, second);
    assert_eq!(first.clientid, client.id);
    assert_ne!(first.flags & exchgid::CONFIRMED_R, 0);
}

#[tokio::test]
async fn updates_are_for_confirmed_clients() {
    let fixture = Fixture::new();
    let update = |verifier| {
        let mut args = introduction("updated");
        args.flags = exchgid::UPD_CONFIRMED_REC_A;
        args.clientowner.verifier = Verifier4([verifier; 8]);
        exchange_id(args)
    };
    let stranger = fixture.stranger();
    assert_eq!(status(&stranger, update(7)).await, NfsStat4::NoEnt);
    stranger.introduce(introduction("updated")).await;
    assert_eq!(status(&stranger, update(7)).await, NfsStat4::NoEnt);
    let (client, _) = newcomer(&fixture, "updated").await;
    assert_eq!(status(&client, update(7)).await, NfsStat4::Ok);
    assert_eq!(status(&client, update(8)).await, NfsStat4::NotSame);
    let other = client.as_user(1111, 37, &[]);
    assert_eq!(status(&other, update(7)).await, NfsStat4::Perm);
}

#[tokio::test]
async fn what_makes_clients_and_sessions_stands_alone_or_behind_sequence() {
    let fixture = Fixture::new();
    let (client, _) = newcomer(&fixture, "first").await;
    let known = client.introduce(introduction("second")).await;
    let request = session_request(known.clientid, known.sequenceid);
    for operation in [
        exchange_id(introduction("third")),
        create_session(request.clone()),
        destroy_session(client.session),
        destroy_clientid(0),
        bind(client.session, ChannelDirFromClient4::Fore),
    ] {
        let reply = client.without_session(vec![operation, putrootfh()]).await;
        assert_eq!(statuses(&reply), [NfsStat4::NotOnlyOp]);
    }
    // In a session, even in that of another client.
    let reply = client
        .compound(vec![create_session(request), putrootfh()])
        .await;
    reply.ok();
    client
        .compound(vec![exchange_id(introduction("third"))])
        .await
        .ok();
    // BIND_CONN_TO_SESSION never follows anything.
    let binding = bind(client.session, ChannelDirFromClient4::Fore);
    assert_eq!(
        client.compound(vec![binding]).await.status,
        NfsStat4::NotOnlyOp
    );
}

#[tokio::test]
async fn sizes_without_space_are_too_small_and_use_no_number_up() {
    let fixture = Fixture::new();
    let client = fixture.stranger();
    let known = client.introduce(introduction("tiny")).await;
    let fore = |fore_chan_attrs| CreateSessionArgs {
        fore_chan_attrs,
        ..session_request(known.clientid, known.sequenceid)
    };
    let tiny_requests = ChannelAttrs4 {
        maxrequestsize: 20,
        ..CHANNEL
    };
    let no_replies = ChannelAttrs4 {
        maxresponsesize: 0,
        ..CHANNEL
    };
    let no_slots = ChannelAttrs4 {
        maxrequests: 0,
        ..CHANNEL
    };
    let tiny_back = CreateSessionArgs {
        back_chan_attrs: ChannelAttrs4 {
            maxrequestsize: 10,
            maxoperations: 1,
            ..CHANNEL
        },
        ..fore(CHANNEL)
    };
    let requests = [
        fore(tiny_requests),
        fore(no_replies),
        fore(no_slots),
        tiny_back,
    ];
    for request in requests.iter().cycle().take(20) {
        let refused = status(&client, create_session(request.clone())).await;
        assert_eq!(refused, NfsStat4::TooSmall);
    }
    client.request_session(fore(CHANNEL)).await;
}

/// Some clients count a refused CREATE_SESSION, as RFC 8881, section 18.36.4, can be read.
#[tokio::test]
async fn after_a_refusal_the_next_number_is_good_too() {
    let fixture = Fixture::new();
    let client = fixture.stranger();
    let known = client.introduce(introduction("counting")).await;
    let mut request = session_request(known.clientid, known.sequenceid);
    request.fore_chan_attrs.maxresponsesize = 0;
    let refused = status(&client, create_session(request)).await;
    assert_eq!(refused, NfsStat4::TooSmall);
    let next = session_request(known.clientid, known.sequenceid + 1);
    let created = client.request_session(next.clone()).await;
    assert_eq!(client.request_session(next).await, created);
    let again = session_request(known.clientid, known.sequenceid);
    let late = status(&client, create_session(again)).await;
    assert_eq!(late, NfsStat4::SeqMisordered);
}

#[tokio::test]
async fn nothing_is_granted_that_was_not_asked_for() {
    let fixture = Fixture::new();
    let client = fixture.stranger();
    let known = client.introduce(introduction("greedy")).await;
    let greedy = ChannelAttrs4 {
        headerpadsize: 64,
        maxrequestsize: u32::MAX,
        maxresponsesize: u32::MAX,
        maxresponsesize_cached: u32::MAX,
        maxoperations: u32::MAX,
        maxrequests: u32::MAX,
        rdma_ird: Some(57),
    };
    let request = CreateSessionArgs {
        fore_chan_attrs: greedy,
        back_chan_attrs: greedy,
        ..session_request(known.clientid, known.sequenceid)
    };
    let created = client.request_session(request).await;
    let granted = created.fore_chan_attrs;
    assert!(granted.maxrequests < 500 && granted.maxrequests > 1);
    assert!(granted.maxrequestsize < u32::MAX && granted.maxresponsesize < u32::MAX);
    assert!(granted.maxresponsesize_cached <= granted.maxresponsesize);
    assert_eq!((created.flags, created.back_chan_attrs.maxrequests), (0, 1));
    let modest = session_request(known.clientid, known.sequenceid + 1);
    let created = client.request_session(modest).await;
    assert_eq!(created.fore_chan_attrs, CHANNEL);
    assert_eq!(created.sequence, known.sequenceid + 1);
}

#[tokio::test]
async fn create_session_has_three_flags() {
    let fixture = Fixture::new();
    let client = fixture.stranger();
    let known = client.introduce(introduction("flags")).await;
    let with = |flags| CreateSessionArgs {
        flags,
        ..session_request(known.clientid, known.sequenceid)
    };
    let refused = status(&client, create_session(with(0xf))).await;
    assert_eq!(refused, NfsStat4::Inval);
    let created = client.request_session(with(7)).await;
    // RDMA is not granted.
    let granted = nfs4::create_session::PERSIST | nfs4::create_session::CONN_BACK_CHAN;
    assert_eq!(created.flags, granted);
}

#[tokio::test]
async fn only_who_introduced_a_client_confirms_it() {
    let fixture = Fixture::new();
    let client = fixture.stranger();
    let known = client.introduce(introduction("owned")).await;
    let request = session_request(known.clientid, known.sequenceid);
    let other = client.as_user(1111, 37, &[]);
    for _ in 0..2 {
        let refused = status(&other, create_session(request.clone())).await;
        assert_eq!(refused, NfsStat4::ClidInUse);
    }
    client.request_session(request).await;
    let second = session_request(known.clientid, known.sequenceid + 1);
    other.request_session(second).await;
}

#[tokio::test]
async fn connections_are_bound_in_every_direction() {
    use ChannelDirFromClient4 as Asked;
    use ChannelDirFromServer4 as Given;
    let fixture = Fixture::new();
    let (client, _) = newcomer(&fixture, "bound").await;
    for (asked, given) in [
        (Asked::Fore, Given::Fore),
        (Asked::Back, Given::Back),
        (Asked::ForeOrBoth, Given::Both),
        (Asked::BackOrBoth, Given::Both),
    ] {
        let over = client.over(fixture.connection());
        let reply = over
            .without_session(vec![bind(client.session, asked)])
            .await;
        let bound = last!(reply, BindConnToSession);
        assert_eq!((bound.sessid, bound.dir), (client.session, given));
        assert!(!bound.use_conn_in_rdma_mode);
        over.compound(vec![putrootfh()]).await.ok();
    }
    let unknown = bind(UNKNOWN, Asked::Fore);
    assert_eq!(status(&client, unknown).await, NfsStat4::BadSession);
}

#[tokio::test]
async fn sessions_are_destroyed_over_their_own_connections() {
    let fixture = Fixture::new();
    let (client, _) = newcomer(&fixture, "destroyed").await;
    let rogue = client.over(fixture.connection());
    let refused = status(&rogue, destroy_session(client.session)).await;
    assert_eq!(refused, NfsStat4::ConnNotBoundToSession);
    // Using the session over the connection is enough.
    rogue.compound(Vec::new()).await.ok();
    assert_eq!(
        status(&rogue, destroy_session(client.session)).await,
        NfsStat4::Ok
    );
    let gone = ArgOp4::Sequence(sequence(client.session, 2));
    assert_eq!(status(&client, gone).await, NfsStat4::BadSession);
    let again = status(&client, destroy_session(client.session)).await;
    assert_eq!(again, NfsStat4::BadSession);
}

#[tokio::test]
async fn a_session_ends_itself_with_its_last_operation_only() {
    let fixture = Fixture::new();
    let (client, _) = newcomer(&fixture, "last").await;
    let own = destroy_session(client.session);
    let reply = client.compound(vec![own.clone(), putrootfh()]).await;
    assert_eq!(reply.status, NfsStat4::NotOnlyOp);
    let (other, _) = newcomer(&fixture, "other").await;
    let over = client.over(fixture.connection());
    over.compound(vec![putrootfh()]).await.ok();
    // Another client's session may stand anywhere, over a connection that it uses.
    let foreign = vec![destroy_session(other.session), putrootfh()];
    let refused = over.compound(foreign.clone()).await;
    assert_eq!(refused.status, NfsStat4::ConnNotBoundToSession);
    let shared = ArgOp4::Sequence(sequence(other.session, 1));
    over.without_session(vec![shared]).await.ok();
    over.compound(foreign).await.ok();
    client.compound(vec![own]).await.ok();
}

#[tokio::test]
async fn clients_with_sessions_are_busy() {
    let fixture = Fixture::new();
    let (client, _) = newcomer(&fixture, "busy").await;
    let leave = destroy_clientid(client.id);
    let busy = client.compound(vec![leave.clone()]).await;
    assert_eq!(busy.status, NfsStat4::ClientidBusy);
    assert_eq!(status(&client, leave.clone()).await, NfsStat4::ClientidBusy);
    let unconfirmed = client.introduce(introduction("shy")).await;
    let gone = destroy_clientid(unconfirmed.clientid);
    client.compound(vec![gone.clone()]).await.ok();
    assert_eq!(status(&client, gone).await, NfsStat4::StaleClientid);
    client
        .without_session(vec![destroy_session(client.session)])
        .await
        .ok();
    assert_eq!(status(&client, leave.clone()).await, NfsStat4::Ok);
    assert_eq!(status(&client, leave).await, NfsStat4::StaleClientid);
}

#[tokio::test]
async fn slots_are_numbered_and_counted() {
    let fixture = Fixture::new();
    let (client, _) = newcomer(&fixture, "slots").await;
    let send = |sequence| client.without_session(vec![ArgOp4::Sequence(sequence)]);
    let on = |slotid, highest_slotid, number| nfs4::SequenceArgs {
        slotid,
        highest_slotid,
        ..sequence(client.session, number)
    };
    let told = last!(send(on(2, 3, 1)).await, Sequence);
    assert_eq!(
        (told.sessionid, told.slotid, told.sequenceid),
        (client.session, 2, 1)
    );
    assert_eq!((told.highest_slotid, told.status_flags), (7, 0));
    for (wrong, expected) in [
        (on(8, 8, 1), NfsStat4::BadSlot),
        (on(7, 8, 1), NfsStat4::BadHighSlot),
        (on(2, 3, 3), NfsStat4::SeqMisordered),
        (on(2, 3, 0), NfsStat4::SeqMisordered),
        (sequence(UNKNOWN, 1), NfsStat4::BadSession),
    ] {
        assert_eq!(send(wrong).await.status, expected, "{wrong:?}");
    }
    send(on(2, 7, 2)).await.ok();
}

#[tokio::test]
async fn a_restarted_client_keeps_its_old_sessions_until_it_confirms() {
    let fixture = Fixture::new();
    let (old, _) = newcomer(&fixture, "restarted").await;
    let mut args = introduction("restarted");
    args.clientowner.verifier = Verifier4([8; 8]);
    let new = old.introduce(args).await;
    assert_ne!(new.clientid, old.id);
    old.compound(Vec::new()).await.ok();
    let request = session_request(new.clientid, new.sequenceid);
    old.request_session(request).await;
    let gone = ArgOp4::Sequence(sequence(old.session, 2));
    assert_eq!(status(&old, gone).await, NfsStat4::BadSession);
    let stale = create_session(session_request(old.id, 2));
    assert_eq!(status(&old, stale).await, NfsStat4::StaleClientid);
}
