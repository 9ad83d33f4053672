//! Reply caches: what is executed, what is repeated, what is refused.

use bytes::Bytes;
use xdr::Rope;

use super::*;

fn sequence(session: SessionId4, slot: u32, sequence: u32) -> SequenceRequest {
    SequenceRequest {
        session,
        sequence,
        slot,
        highest_slot: 3,
        cache: true,
        request_bytes: 100,
        smallest_reply_bytes: 100,
        operations: 2,
        principal: Principal::User(0),
        connection: CONNECTION,
    }
}

fn place(outcome: Result<Sequenced, NfsStat4>) -> ReplySlot {
    match outcome {
        Ok(Sequenced::Execute { slot, .. }) => slot,
        other => panic!("expected a new request, got {other:?}"),
    }
}

#[test]
fn a_repeat_gets_the_first_reply() {
    let mut table = Table::new();
    let (_, session) = table.client("a");
    let request = sequence(session, 0, 1);
    let slot = place(table.state.sequence(&request, table.now));
    let reply = Rope::from(Bytes::from_static(b"reply"));
    table
        .state
        .finish_sequence(slot, Some(reply.clone()), table.now);
    match table.state.sequence(&request, table.now) {
        Ok(Sequenced::Replay(again)) => assert_eq!(again, reply),
        other => panic!("expected a replay, got {other:?}"),
    }
}

#[test]
fn a_repeat_while_the_first_is_executed_has_to_wait() {
    let mut table = Table::new();
    let (_, session) = table.client("a");
    let request = sequence(session, 0, 1);
    place(table.state.sequence(&request, table.now));
    assert_eq!(
        table.state.sequence(&request, table.now).unwrap_err(),
        NfsStat4::Delay
    );
    let next = sequence(session, 0, 2);
    assert_eq!(
        table.state.sequence(&next, table.now).unwrap_err(),
        NfsStat4::SeqMisordered
    );
}

#[test]
fn a_reply_that_was_not_kept_is_said_to_be_gone() {
    let mut table = Table::new();
    let (_, session) = table.client("a");
    let request = sequence(session, 0, 1);
    let slot = place(table.state.sequence(&request, table.now));
    table.state.finish_sequence(slot, None, table.now);
    let repeat = table.state.sequence(&request, table.now);
    assert_eq!(repeat.unwrap_err(), NfsStat4::RetryUncachedRep);
}

#[test]
fn another_request_under_an_old_number_is_a_false_retry() {
    let mut table = Table::new();
    let (_, session) = table.client("a");
    let request = sequence(session, 0, 1);
    let slot = place(table.state.sequence(&request, table.now));
    table
        .state
        .finish_sequence(slot, Some(Rope::default()), table.now);
    for other in [
        SequenceRequest {
            operations: 3,
            ..request
        },
        SequenceRequest {
            principal: Principal::User(5),
            ..request
        },
    ] {
        let outcome = table.state.sequence(&other, table.now);
        assert_eq!(outcome.unwrap_err(), NfsStat4::SeqFalseRetry);
    }
}

#[test]
fn sequence_numbers_go_up_by_one_and_wrap() {
    let mut table = Table::new();
    let (_, session) = table.client("a");
    for wrong in [0, 2, u32::MAX] {
        let outcome = table
            .state
            .sequence(&sequence(session, 0, wrong), table.now);
        assert_eq!(
            outcome.unwrap_err(),
            NfsStat4::SeqMisordered,
            "sequence {wrong}"
        );
    }
    for number in [1, 2, 3] {
        let slot = place(
            table
                .state
                .sequence(&sequence(session, 0, number), table.now),
        );
        table.state.finish_sequence(slot, None, table.now);
    }
    place(table.state.sequence(&sequence(session, 1, 1), table.now));
}

#[test]
fn slots_and_sizes_have_bounds() {
    let mut table = Table::new();
    let (_, session) = table.client("a");
    let good = sequence(session, 0, 1);
    let unknown = SessionId4([9; 16]);
    for (bad, status) in [
        (
            SequenceRequest {
                session: unknown,
                ..good
            },
            NfsStat4::BadSession,
        ),
        (SequenceRequest { slot: 4, ..good }, NfsStat4::BadSlot),
        (
            SequenceRequest {
                highest_slot: 4,
                ..good
            },
            NfsStat4::BadHighSlot,
        ),
        (
            SequenceRequest {
                operations: 9,
                ..good
            },
            NfsStat4::TooManyOps,
        ),
        (
            SequenceRequest {
                request_bytes: 4097,
                ..good
            },
            NfsStat4::ReqTooBig,
        ),
        (
            SequenceRequest {
                smallest_reply_bytes: 1025,
                ..good
            },
            NfsStat4::RepTooBigToCache,
        ),
        (
            SequenceRequest {
                smallest_reply_bytes: 4097,
                cache: false,
                ..good
            },
            NfsStat4::RepTooBig,
        ),
    ] {
        assert_eq!(table.state.sequence(&bad, table.now).unwrap_err(), status);
    }
    // None of them used the slot up.
    place(table.state.sequence(&good, table.now));
}

#[test]
fn create_session_is_exactly_once_too() {
    let mut table = Table::new();
    let exchanged = table.exchange("a", 1, 0).unwrap();
    let wrong = table.create(exchanged.client, exchanged.sequence + 1);
    assert_eq!(wrong.unwrap_err(), NfsStat4::SeqMisordered);
    let created = table.create(exchanged.client, exchanged.sequence).unwrap();
    let repeated = table.create(exchanged.client, exchanged.sequence).unwrap();
    assert_eq!(repeated, created);
    assert_eq!(table.state.counts().sessions, 1);
    let next = table
        .create(exchanged.client, exchanged.sequence + 1)
        .unwrap();
    assert_ne!(next.session, created.session);
}

#[test]
fn channels_are_cut_to_the_servers_limits() {
    let mut table = Table::new();
    let exchanged = table.exchange("a", 1, 0).unwrap();
    let mut request = create_request(exchanged.client, exchanged.sequence);
    request.channel.slots = 100_000;
    request.channel.request_bytes = u32::MAX;
    let created = table.state.create_session(&request, table.now).unwrap().0;
    let limits = Limits::default();
    assert_eq!(created.channel.slots, limits.slots);
    assert_eq!(created.channel.request_bytes, limits.request_bytes);

    let mut tiny = create_request(exchanged.client, exchanged.sequence + 1);
    tiny.channel.response_bytes = 20;
    assert_eq!(
        table.state.create_session(&tiny, table.now).unwrap_err(),
        NfsStat4::TooSmall
    );
}

#[test]
fn a_callback_uses_its_slot_alone_and_advances_only_when_answered() {
    let mut table = Table::new();
    let (client, session) = table.client("a");
    let callback = table.state.begin_callback(client).unwrap();
    assert_eq!((callback.session, callback.sequence), (session, 1));
    assert_eq!(table.state.begin_callback(client), None);
    table.state.end_callback(&callback, CallbackEnd::Executed);
    let second = table.state.begin_callback(client).unwrap();
    assert_eq!(second.sequence, 2);
    table.state.end_callback(&second, CallbackEnd::Unanswered);
    assert_eq!(
        table.state.begin_callback(client),
        None,
        "the connection did not answer"
    );

    let down = table.state.sequence(&sequence(session, 0, 1), table.now);
    assert!(matches!(
        down,
        Ok(Sequenced::Execute {
            back: BackChannelHealth {
                session_down: true,
                client_down: true
            },
            ..
        })
    ));
    table
        .state
        .bind_connection(session, ConnectionId(2), true)
        .unwrap();
    let third = table.state.begin_callback(client).unwrap();
    assert_eq!((third.connection, third.sequence), (ConnectionId(2), 2));
}

#[test]
fn a_connection_that_has_ended_belongs_to_no_session() {
    let mut table = Table::new();
    let (client, first) = table.client("a");
    let second = table.create(client, 2).unwrap().session;
    let other = ConnectionId(2);
    table.state.bind_connection(second, other, false).unwrap();
    table.state.connection_closed(CONNECTION);
    let told = table.state.destroy_session(first, CONNECTION, None);
    assert_eq!(told, Err(NfsStat4::ConnNotBoundToSession));
    table.state.destroy_session(second, other, None).unwrap();
    assert!(table.state.associations.is_empty());
    table.state.connection_closed(other);
    // It is used once more over another one.
    place(table.state.sequence(&sequence(first, 0, 1), table.now));
    assert_eq!(table.state.associations.len(), 1);
}

#[test]
fn a_session_with_requests_under_way_is_not_destroyed() {
    let mut table = Table::new();
    let (_, session) = table.client("a");
    let own = place(table.state.sequence(&sequence(session, 0, 1), table.now));
    let other = place(table.state.sequence(&sequence(session, 1, 1), table.now));
    assert_eq!(
        table.state.destroy_session(session, CONNECTION, Some(own)),
        Err(NfsStat4::Delay)
    );
    table.state.finish_sequence(other, None, table.now);
    table
        .state
        .destroy_session(session, CONNECTION, Some(own))
        .unwrap();
    table.state.finish_sequence(own, None, table.now);
}

#[test]
fn a_request_under_way_keeps_its_client_alive() {
    let mut table = Table::new();
    let (_, session) = table.client("a");
    let slot = place(table.state.sequence(&sequence(session, 0, 1), table.now));
    table.pass(Duration::from_secs(3600));
    table.expire();
    assert_eq!(table.state.counts().clients, 1);
    table.state.finish_sequence(slot, None, table.now);
    table.expire();
    assert_eq!(
        table.state.counts().clients,
        1,
        "the end of the request renewed the lease"
    );
}
