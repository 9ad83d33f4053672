//! Grace, reclaim, and who may do it.

use super::*;

#[test]
fn nobody_to_wait_for_means_no_grace() {
    let mut table = Table::new();
    assert!(!table.state.in_grace());
    let (client, _) = table.client("a");
    assert_eq!(table.admit(client, Reclaim::No), Ok(()));
    assert_eq!(table.admit(client, Reclaim::Yes), Err(NfsStat4::NoGrace));
}

#[test]
fn a_client_must_say_that_it_reclaimed_before_it_opens() {
    let mut table = Table::new();
    let exchanged = table.exchange("a", 1, 0).unwrap();
    table.create(exchanged.client, exchanged.sequence).unwrap();
    assert_eq!(
        table.admit(exchanged.client, Reclaim::No),
        Err(NfsStat4::Grace)
    );
    table.reclaim_complete(exchanged.client).unwrap();
    assert_eq!(table.admit(exchanged.client, Reclaim::No), Ok(()));
    let again = table.reclaim_complete(exchanged.client);
    assert_eq!(again, Err(NfsStat4::CompleteAlready));
}

#[test]
fn only_those_who_held_state_may_reclaim() {
    let mut table = Table::after_restart(&["known"]);
    assert!(table.state.in_grace());
    for (owner, expected) in [("known", Ok(())), ("new", Err(NfsStat4::ReclaimBad))] {
        let exchanged = table.exchange(owner, 1, 0).unwrap();
        table.create(exchanged.client, exchanged.sequence).unwrap();
        assert_eq!(
            table.admit(exchanged.client, Reclaim::Yes),
            expected,
            "{owner}"
        );
        assert_eq!(
            table.admit(exchanged.client, Reclaim::No),
            Err(NfsStat4::Grace)
        );
    }
}

#[test]
fn grace_ends_early_when_everybody_is_back() {
    let mut table = Table::after_restart(&["a", "b"]);
    table.client("a");
    assert_eq!(table.state.end_grace_if_due(table.now), None);
    table.client("b");
    assert_eq!(table.state.end_grace_if_due(table.now), Some(Vec::new()));
    table.state.grace_has_ended();
    assert!(!table.state.in_grace());
    assert_eq!(
        table.state.end_grace_if_due(table.now),
        None,
        "it ends once"
    );
}

#[test]
fn the_records_of_those_who_stay_away_are_forgotten() {
    let mut table = Table::after_restart(&["back", "gone"]);
    table.client("back");
    table.pass(Limits::default().grace);
    let gone: Arc<[u8]> = Arc::from(&b"gone"[..]);
    let departures = table.state.end_grace_if_due(table.now).unwrap();
    assert_eq!(table.see_off(departures), [Release::Record(gone)]);
}

/// What was given to others while the records were still there could be reclaimed after another crash by who had lost it.
#[test]
fn nothing_is_given_nor_reclaimed_before_the_records_of_those_who_stay_away_have_gone() {
    let mut table = Table::after_restart(&["back", "slow", "gone"]);
    let (back, _) = table.client("back");
    let slow = table.exchange("slow", 1, 0).unwrap();
    table.create(slow.client, slow.sequence).unwrap();
    table.pass(Limits::default().grace);
    let departures = table.state.end_grace_if_due(table.now).unwrap();
    assert_eq!(table.admit(back, Reclaim::No), Err(NfsStat4::Grace));
    let late = table.admit(slow.client, Reclaim::Yes);
    assert_eq!(late, Err(NfsStat4::NoGrace));
    table.see_off(departures);
    table.state.grace_has_ended();
    assert_eq!(table.admit(back, Reclaim::No), Ok(()));
}

/// A client with 42 files open reclaimed one every quarter of a second from shortly before the end on, and lost those that
/// came after it.
#[test]
fn a_grace_period_goes_on_while_somebody_reclaims_but_not_for_ever() {
    let Limits { grace, lease, .. } = Limits::default();
    let second = Duration::from_secs(1);
    let mut table = Table::after_restart(&["slow", "gone"]);
    let exchanged = table.exchange("slow", 1, 0).unwrap();
    table.create(exchanged.client, exchanged.sequence).unwrap();
    table.pass(grace - second);
    for _ in 0..lease.as_secs() {
        assert_eq!(table.admit(exchanged.client, Reclaim::Yes), Ok(()));
        assert_eq!(table.state.end_grace_if_due(table.now), None);
        table.pass(second);
    }
    table.pass(second);
    assert!(table.state.end_grace_if_due(table.now).is_some());
    let late = table.admit(exchanged.client, Reclaim::Yes);
    assert_eq!(late, Err(NfsStat4::NoGrace));
}

#[test]
fn a_client_that_stops_reclaiming_is_not_waited_for_long() {
    let Limits { grace, lease, .. } = Limits::default();
    let mut table = Table::after_restart(&["stopped"]);
    let exchanged = table.exchange("stopped", 1, 0).unwrap();
    table.create(exchanged.client, exchanged.sequence).unwrap();
    table.pass(grace - Duration::from_secs(1));
    assert_eq!(table.admit(exchanged.client, Reclaim::Yes), Ok(()));
    table.pass(lease / 5);
    assert!(table.state.end_grace_if_due(table.now).is_some());
}

/// Once any host that came first after a restart of the server could take the name of a client, and with it what the client held.
#[test]
fn the_name_of_a_client_that_is_expected_back_is_not_given_to_another_address() {
    let mut before = Table::new();
    let (client, _) = before.client("a");
    let record = before.state.clients[&client].record();
    let now = before.now;
    let start = || Table {
        state: State::new(Limits::default(), 8, KEY, [record.clone()], now),
        now,
    };
    let from = |last, verifier, user| {
        let mut request = request("a", verifier, user);
        request.identity.address = Ipv4Addr::new(192, 0, 2, last).into();
        request
    };
    let ask = |table: &mut Table, request| {
        let asked = table.state.exchange_id(request, table.now);
        asked.map(drop)
    };
    let mut table = start();
    for other in [from(99, 2, 0), from(1, 2, 1000)] {
        assert_eq!(ask(&mut table, other.clone()), Err(NfsStat4::Delay));
        assert_eq!(ask(&mut table, other), Err(NfsStat4::Delay));
    }
    // It knows the verifier, or has restarted where it was.
    for same in [from(99, 1, 0), from(1, 2, 0)] {
        assert_eq!(ask(&mut start(), same), Ok(()));
    }
    table.pass(Limits::default().grace);
    let records = table.state.end_grace_if_due(table.now).unwrap();
    table.see_off(records);
    table.state.grace_has_ended();
    assert_eq!(ask(&mut table, from(99, 2, 0)), Ok(()), "it stayed away");
}
