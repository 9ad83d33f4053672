//! EXCHANGE_ID by the numbered cases of RFC 8881, section 18.35.4, and the life of client records.

use super::*;

#[test]
fn case_1_a_new_owner_gets_an_unconfirmed_record() {
    let mut table = Table::new();
    let exchanged = table.exchange("a", 1, 0).unwrap();
    assert!(!exchanged.confirmed);
    assert_eq!(table.state.counts().clients, 0);
    table.create(exchanged.client, exchanged.sequence).unwrap();
    assert_eq!(table.state.counts().clients, 1);
}

#[test]
fn case_2_the_same_incarnation_finds_its_record_again() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let again = table.exchange("a", 1, 0).unwrap();
    assert_eq!((again.client, again.confirmed), (client, true));
}

#[test]
fn case_3_another_principal_collides_only_with_a_client_in_use() {
    let mut table = Table::new();
    let (client, session) = table.client("a");
    assert_eq!(table.exchange("a", 1, 99), Err(NfsStat4::ClidInUse));
    table
        .state
        .destroy_session(session, CONNECTION, None)
        .unwrap();
    let other = table.exchange("a", 1, 99).unwrap();
    assert_ne!(other.client, client);
    assert_eq!(
        table.create(client, 2).unwrap_err(),
        NfsStat4::StaleClientid
    );
}

#[test]
fn case_4_an_unconfirmed_record_is_replaced() {
    let mut table = Table::new();
    let first = table.exchange("a", 1, 0).unwrap();
    let second = table.exchange("a", 2, 99).unwrap();
    assert_ne!(first.client, second.client);
    assert_eq!(
        table.create(first.client, 1).unwrap_err(),
        NfsStat4::StaleClientid
    );
}

#[test]
fn case_5_a_restarted_client_loses_its_old_state_when_it_confirms() {
    let mut table = Table::new();
    let (old, _) = table.client("a");
    let share = vfs::Share {
        read: true,
        ..vfs::Share::default()
    };
    table
        .state
        .record_open(old, b"owner", file(1), share)
        .unwrap();
    let new = table.exchange("a", 2, 0).unwrap();
    assert_eq!(
        table.state.counts().opens,
        1,
        "nothing is lost before the new record is confirmed"
    );
    let request = create_request(new.client, new.sequence);
    let (_, releases) = table.state.create_session(&request, table.now).unwrap();
    assert!(
        matches!(&releases[..], [Release::Open(key, _), Release::Record(_)] if *key == file(1))
    );
    assert_eq!(
        table.state.counts(),
        StateCounts {
            clients: 1,
            sessions: 1,
            opens: 0,
            locks: 0
        }
    );
}

#[test]
fn cases_6_to_9_updates_need_the_same_client() {
    let mut table = Table::new();
    let update = |owner: &str, verifier: u8, uid: u32| ExchangeRequest {
        update: true,
        ..request(owner, verifier, uid)
    };
    let now = table.now;
    assert_eq!(
        table.state.exchange_id(update("a", 1, 0), now).unwrap_err(),
        NfsStat4::NoEnt
    );
    let (client, _) = table.client("a");
    let (exchanged, _) = table.state.exchange_id(update("a", 1, 0), now).unwrap();
    assert_eq!((exchanged.client, exchanged.confirmed), (client, true));
    assert_eq!(
        table.state.exchange_id(update("a", 2, 0), now).unwrap_err(),
        NfsStat4::NotSame
    );
    assert_eq!(
        table.state.exchange_id(update("a", 1, 9), now).unwrap_err(),
        NfsStat4::Perm
    );
}

#[test]
fn a_silent_client_expires_with_everything_it_had() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let share = vfs::Share {
        write: true,
        ..vfs::Share::default()
    };
    table
        .state
        .record_open(client, b"owner", file(1), share)
        .unwrap();
    table.pass(Limits::default().lease);
    assert!(
        table.state.expire(table.now).is_empty(),
        "the lease has not run out yet"
    );
    table.pass(Duration::from_secs(1));
    let releases = table.state.expire(table.now);
    assert!(matches!(
        &releases[..],
        [Release::Open(..), Release::Record(_)]
    ));
    assert_eq!(
        table.state.counts(),
        StateCounts {
            clients: 0,
            sessions: 0,
            opens: 0,
            locks: 0
        }
    );
}

#[test]
fn a_client_with_a_session_cannot_be_destroyed() {
    let mut table = Table::new();
    let (client, session) = table.client("a");
    assert_eq!(
        table.state.destroy_client(client, false),
        Err(NfsStat4::ClientidBusy)
    );
    table
        .state
        .destroy_session(session, CONNECTION, None)
        .unwrap();
    table.state.destroy_client(client, false).unwrap();
    assert_eq!(
        table.state.destroy_client(client, false),
        Err(NfsStat4::StaleClientid)
    );
}

#[test]
fn the_table_of_clients_is_bounded() {
    let now = Instant::now();
    let limits = Limits {
        clients: 2,
        ..Limits::default()
    };
    let mut table = Table {
        state: State::new(limits, 7, [], now),
        now,
    };
    table.exchange("a", 1, 0).unwrap();
    table.exchange("b", 1, 0).unwrap();
    assert_eq!(table.exchange("c", 1, 0), Err(NfsStat4::Delay));
    table
        .exchange("b", 2, 0)
        .expect("a replaced record needs no further room");
}
