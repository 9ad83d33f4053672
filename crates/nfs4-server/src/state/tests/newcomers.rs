//! Clients that come from other servers: how long they may reclaim, and what they lose.

use vfs::Share;

use super::*;

const PLACE: u16 = 3;

fn table() -> Table {
    let mut table = Table::new();
    let now = table.now;
    table.state = State::new(Limits::default(), 7, KEY, [], now).among_others(Some(PLACE));
    table
}

/// A confirmed client that has not said that it has reclaimed everything.
fn arrive(table: &mut Table, owner: &str) -> ClientId {
    let exchanged = table.exchange(owner, 1, 0).unwrap();
    table.create(exchanged.client, exchanged.sequence).unwrap();
    exchanged.client
}

#[test]
fn a_newcomer_may_reclaim_until_it_says_that_it_is_done() {
    let mut table = table();
    let client = arrive(&mut table, "a");
    assert_eq!(table.admit(client, Reclaim::Yes), Ok(()));
    assert!(table.state.must_prove(client));
    table.reclaim_complete(client).unwrap();
    let late = table.admit(client, Reclaim::Yes);
    assert_eq!(late, Err(NfsStat4::NoGrace));
}

#[test]
fn a_client_that_comes_with_one_more_session_may_reclaim_until_it_is_done_again() {
    let mut table = table();
    let (client, _) = table.client("a");
    let late = table.admit(client, Reclaim::Yes);
    assert_eq!(late, Err(NfsStat4::NoGrace));
    table.create(client, 2).unwrap();
    for what in [Reclaim::Yes, Reclaim::No] {
        assert_eq!(table.admit(client, what), Ok(()), "{what:?}");
    }
    assert!(table.state.must_prove(client));
    let again = table.reclaim_complete(client);
    assert_eq!(again, Err(NfsStat4::CompleteAlready));
    let late = table.admit(client, Reclaim::Yes);
    assert_eq!(late, Err(NfsStat4::NoGrace));
}

#[test]
fn a_newcomer_may_reclaim_for_one_lease_however_often_it_renews() {
    let mut table = table();
    let client = arrive(&mut table, "a");
    let lease = Limits::default().lease;
    table.pass(lease / 2);
    table.exchange("a", 1, 0).unwrap();
    table.pass(lease / 2);
    table.expire();
    assert_eq!(table.admit(client, Reclaim::Yes), Ok(()));
    table.exchange("a", 1, 0).unwrap();
    table.pass(Duration::from_secs(1));
    table.expire();
    let late = table.admit(client, Reclaim::Yes);
    assert_eq!(late, Err(NfsStat4::NoGrace));
}

#[test]
fn a_client_that_has_lost_what_it_held_here_reclaims_nothing() {
    let mut table = table();
    let client = arrive(&mut table, "a");
    table.reclaim_complete(client).unwrap();
    let share = Share {
        read: true,
        ..Share::default()
    };
    table
        .state
        .record_open(client, b"o", file(1), share)
        .unwrap();
    table.pass(2 * Limits::default().lease);
    assert!(!table.expire().is_empty());
    for (round, expected) in [Err(NfsStat4::NoGrace), Ok(())].into_iter().enumerate() {
        let client = arrive(&mut table, "a");
        let reclaims = table.admit(client, Reclaim::Yes);
        assert_eq!(reclaims, expected, "time {round}");
        // It knows that it has lost all, and may come from elsewhere with something new.
        table.reclaim_complete(client).unwrap();
        table.pass(2 * Limits::default().lease);
        table.expire();
    }
}

#[test]
fn numbers_of_other_servers_are_none_of_this_ones() {
    let mut table = table();
    let exchanged = table.exchange("a", 1, 0).unwrap();
    let mut elsewhere = State::new(Limits::default(), 7, KEY, [], table.now).among_others(Some(4));
    let (other, _) = elsewhere
        .exchange_id(request("a", 1, 0), table.now)
        .unwrap();
    assert_ne!(exchanged.client, other.client);
}

#[test]
fn a_restarted_client_goes_by_another_name() {
    let mut table = table();
    let (before, _) = table.client("a");
    let before = table.state.lock_owner(before, b"l").unwrap();
    let exchanged = table.exchange("a", 2, 0).unwrap();
    table.create(exchanged.client, exchanged.sequence).unwrap();
    let after = table.state.lock_owner(exchanged.client, b"l").unwrap();
    assert_ne!(before, after);
    let names = [before.client, after.client.clone()];
    assert_eq!(table.state.absent(&names, table.now), names[..1]);
    assert_eq!(
        table.state.client_named(&after.client),
        Some(exchanged.client)
    );
}

#[test]
fn who_may_reclaim_after_the_restart_of_this_server_is_not_absent() {
    let now = Instant::now();
    let may_reclaim = [recorded("known")];
    let mut state =
        State::new(Limits::default(), 7, KEY, may_reclaim, now).among_others(Some(PLACE));
    let name = |owner: &str| Arc::from([&[1; 8][..], owner.as_bytes()].concat());
    let names = [name("known"), name("unknown")];
    assert_eq!(state.absent(&names, now), names[1..]);
}

#[test]
fn a_client_that_comes_while_its_state_is_given_up_is_told_apart() {
    let mut table = table();
    let client = arrive(&mut table, "a");
    let name = table.state.lock_owner(client, b"l").unwrap().client;
    assert_eq!(table.state.is_being_given_up(client, table.now), None);
    table.pass(2 * Limits::default().lease);
    table.expire();
    let names = [name.clone()];
    assert_eq!(table.state.unknown(&names), names);
    let client = arrive(&mut table, "a");
    assert_eq!(table.admit(client, Reclaim::Yes), Ok(()), "only looked for");
    table.pass(2 * Limits::default().lease);
    table.expire();
    assert_eq!(table.state.absent(&names, table.now), names);
    let client = arrive(&mut table, "a");
    let late = table.admit(client, Reclaim::Yes);
    assert_eq!(late, Err(NfsStat4::NoGrace));
    let given_up = |table: &Table| table.state.is_being_given_up(client, table.now);
    assert_eq!(given_up(&table), Some(name));
    table.pass(Limits::default().lease + Duration::from_secs(1));
    assert_eq!(given_up(&table), None);
}

/// The names of those who had lost something were kept for ever, and when there were as many as there may be clients, nobody who came from
/// another server could reclaim anything.
#[test]
fn those_who_lost_something_keep_nobody_from_reclaiming_for_ever() {
    let limits = Limits {
        clients: 4,
        ..Limits::default()
    };
    let now = Instant::now();
    let mut table = Table {
        state: State::new(limits, 7, KEY, [], now).among_others(Some(PLACE)),
        now,
    };
    for number in 0..4 {
        let (client, _) = table.client(&format!("client {number}"));
        let open = table
            .state
            .record_open(client, b"o", file(1), Share::default());
        open.unwrap();
        table.pass(Limits::default().lease + Duration::from_secs(1));
        assert!(!table.expire().is_empty());
    }
    for _ in 0..3 {
        table.expire();
        table.pass(Limits::default().lease);
    }
    table.expire();
    let client = arrive(&mut table, "another");
    assert_eq!(table.admit(client, Reclaim::Yes), Ok(()));
}
