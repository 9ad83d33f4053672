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
    let (_, departure) = table.state.create_session(&request, table.now).unwrap();
    let releases = table.see_off(departure);
    assert!(
        matches!(&releases[..], [Release::Record(_), Release::Open(key, _)] if *key == file(1))
    );
    assert_eq!(
        table.state.counts(),
        StateCounts {
            clients: 1,
            sessions: 1,
            opens: 0,
            locks: 0,
            memory: table.state.counts().memory,
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

/// A table with a client that has a file open for writing.
fn with_an_open_file() -> Table {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    let share = vfs::Share {
        write: true,
        ..vfs::Share::default()
    };
    let state = &mut table.state;
    let open = state.record_open(client, b"owner", file(1), share);
    open.unwrap();
    table
}

/// In trees whose other servers may have the client, only what is here ends.
#[test]
fn what_a_silent_client_may_have_reclaimed_elsewhere_stays() {
    let mut table = with_an_open_file();
    table.pass(Limits::default().lease + Duration::from_secs(1));
    let departures = table.state.expire(table.now);
    let [departure] = &departures[..] else {
        panic!("one client, and not {}", departures.len());
    };
    let name = table.state.may_be_elsewhere(departure);
    assert!(name.is_some(), "the others are to be asked");
    table.state.stays(departure, [file(1).tree].into());
    let releases = table.see_off(departures);
    assert!(matches!(
        &releases[..],
        [Release::Record(_), Release::Leave(key, _)] if *key == file(1)
    ));
}

#[test]
fn a_client_that_has_restarted_has_nothing_elsewhere() {
    let mut table = with_an_open_file();
    let new = table.exchange("a", 2, 0).unwrap();
    let request = create_request(new.client, new.sequence);
    let (_, departure) = table.state.create_session(&request, table.now).unwrap();
    let departure = departure.unwrap();
    assert!(table.state.may_be_elsewhere(&departure).is_none());
    let releases = table.see_off([departure]);
    assert!(matches!(
        &releases[..],
        [Release::Record(_), Release::Open(..)]
    ));
}

#[test]
fn a_silent_client_expires_with_everything_it_had() {
    let mut table = with_an_open_file();
    table.pass(Limits::default().lease);
    assert!(table.expire().is_empty(), "the lease has not run out yet");
    table.pass(Duration::from_secs(1));
    let releases = table.expire();
    assert!(matches!(
        &releases[..],
        [Release::Record(_), Release::Open(..)]
    ));
    assert_eq!(
        table.state.counts(),
        StateCounts {
            clients: 0,
            sessions: 0,
            opens: 0,
            locks: 0,
            memory: table.state.counts().memory,
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
        state: State::new(limits, 7, KEY, [], now),
        now,
    };
    table.client("a");
    table.client("b");
    let third = table.exchange("c", 1, 0).unwrap();
    assert_eq!(table.create(third.client, 1), Err(NfsStat4::Delay));
    let again = table.exchange("b", 2, 0).unwrap();
    table
        .create(again.client, 1)
        .expect("a replaced record needs no further space");
}

/// Once one host filled the table of clients in a moment, and nobody else was let in before those records had expired.
#[test]
fn unconfirmed_records_push_out_each_other_and_nobody_else() {
    let mut table = Table::new();
    let (mounted, _) = table.client("mounted");
    let from = |owner: &str, host: u8| {
        let mut request = request(owner, 1, 0);
        request.identity.address = Ipv4Addr::new(192, 0, 2, host).into();
        request
    };
    let come = |table: &mut Table, owner: &str, host: u8| {
        let come = table.state.exchange_id(from(owner, host), table.now);
        come.unwrap().0
    };
    let modest = come(&mut table, "modest", 2);
    for number in 0..20_000 {
        come(&mut table, &format!("crowd {number}"), 3);
    }
    assert!(table.state.clients.len() < 1000);
    table.create(modest.client, 1).unwrap();
    for number in 0..20_000 {
        come(&mut table, &format!("many {number}"), (number % 250) as u8);
    }
    assert!(table.state.clients.len() < 10_000);
    let last = come(&mut table, "last", 251);
    table.create(last.client, 1).unwrap();
    assert!(table.state.clients.contains_key(&mounted));
    table.pass(Duration::from_secs(16));
    assert!(table.expire().is_empty());
    assert_eq!(table.state.clients.len(), 3, "the others have given up");
}

/// Once any host could name itself like a mounted client, and with that throw its state away.
#[test]
fn a_name_in_use_is_not_given_to_another_address() {
    let mut table = Table::new();
    let (client, session) = table.client("a");
    let elsewhere = |verifier| {
        let mut request = request("a", verifier, 0);
        request.identity.address = Ipv4Addr::new(192, 0, 2, 99).into();
        request
    };
    let ask = |table: &mut Table| {
        let asked = table.state.exchange_id(elsewhere(2), table.now);
        asked.map(|(exchanged, _)| exchanged.confirmed)
    };
    // It may be the client, restarted with another address, so it is told to wait.
    assert_eq!(ask(&mut table), Err(NfsStat4::Delay));
    table.pass(Duration::from_secs(1));
    assert_eq!(ask(&mut table), Err(NfsStat4::Delay));
    // The client goes on, so there are two.
    table.exchange("a", 1, 0).unwrap();
    assert_eq!(ask(&mut table), Err(NfsStat4::ClidInUse));
    // Later another one asks, and what was before does not count.
    assert_eq!(ask(&mut table), Err(NfsStat4::Delay));
    table.exchange("a", 1, 0).unwrap();
    table.pass(Duration::from_secs(60));
    assert_eq!(ask(&mut table), Err(NfsStat4::Delay));
    // The client itself may have more addresses than one, and knows its verifier.
    let known = table.state.exchange_id(elsewhere(1), table.now).unwrap().0;
    assert_eq!(known.client, client);
    // At the same address it has restarted.
    let again = table.exchange("a", 2, 0).unwrap();
    assert_ne!(again.client, client);
    table
        .state
        .destroy_session(session, CONNECTION, None)
        .unwrap();
    let free = table.state.exchange_id(elsewhere(3), table.now).unwrap().0;
    assert!(!free.confirmed);
}

/// A machine that was restarted and got another address by DHCP could not mount for a lease, and was told that it may not.
#[test]
fn a_client_that_was_restarted_with_another_address_is_let_in_when_its_lease_is_over() {
    let mut table = Table::new();
    table.client("a");
    let mut restarted = request("a", 2, 0);
    restarted.identity.address = Ipv4Addr::new(192, 0, 2, 99).into();
    for _ in 0..=Limits::default().lease.as_secs() {
        let asked = table.state.exchange_id(restarted.clone(), table.now);
        assert_eq!(asked.unwrap_err(), NfsStat4::Delay);
        table.pass(Duration::from_secs(1));
    }
    let (come, _) = table.state.exchange_id(restarted, table.now).unwrap();
    table.create(come.client, come.sequence).unwrap();
}

/// Before a fix, a client that came back while its old state was being released lost its new state.
#[test]
fn nobody_comes_under_a_name_while_what_it_held_is_let_go() {
    let mut table = Table::new();
    let (client, _) = table.client("a");
    for number in 0..200 {
        let open = table
            .state
            .record_open(client, b"owner", file(number), vfs::Share::default());
        open.unwrap();
    }
    let restarted = table.exchange("a", 2, 0).unwrap();
    table.pass(Limits::default().lease + Duration::from_secs(1));
    let gone = table.state.expire(table.now);
    assert_eq!(gone.len(), 1);
    assert_eq!(
        table.exchange("a", 3, 0),
        Err(NfsStat4::Delay),
        "what comes anew has the same name"
    );
    assert_eq!(
        table.create(restarted.client, 1),
        Err(NfsStat4::StaleClientid)
    );
    let first = table.state.next_releases(&gone[0]).unwrap();
    assert!(
        matches!(&first[..], [Release::Record(_)]),
        "before anybody else gets any of it"
    );
    let (mut pieces, mut opens) = (0, 0);
    while let Some(more) = table.state.next_releases(&gone[0]) {
        assert!(
            more.len() <= 64,
            "a client that held much keeps nobody waiting"
        );
        (pieces, opens) = (pieces + 1, opens + more.len());
    }
    assert!(pieces > 1 && opens == 200);
    table.exchange("a", 3, 0).unwrap();
    assert_eq!(table.state.counts().memory, Memory::default());
}

/// The clients that are in the tables.
fn known(table: &Table, clients: &[ClientId]) -> Vec<bool> {
    let known = |id: &ClientId| table.state.confirmed(*id).is_ok();
    clients.iter().map(known).collect()
}

impl Table {
    /// A client from an address of its own, or `DELAY`.
    fn client_from(&mut self, number: u16, host: u8) -> Result<ClientId, NfsStat4> {
        let mut request = request(&format!("client {number}"), 1, 0);
        request.identity.address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, host));
        let (exchanged, _) = self.state.exchange_id(request, self.now)?;
        let (_, departures) = self.state.make_space_for(exchanged.client, self.now);
        self.see_off(departures);
        self.create(exchanged.client, exchanged.sequence)?;
        self.reclaim_complete(exchanged.client)?;
        Ok(exchanged.client)
    }
}

#[test]
fn when_there_are_too_many_those_go_that_hold_nothing_and_were_silent_for_longest() {
    let mut table = Table::new();
    table.state.limits.clients = 16;
    let come = |table: &mut Table, number| {
        table.pass(Duration::from_secs(2));
        table.client_from(number, number as u8).unwrap()
    };
    let clients: Vec<_> = (0..16).map(|number| come(&mut table, number)).collect();
    // The first one that came holds something; the next one is heard of.
    let share = vfs::Share {
        read: true,
        write: false,
        deny_read: false,
        deny_write: false,
    };
    let opened = table
        .state
        .record_open(clients[0], b"opener", file(1), share);
    opened.unwrap();
    table.state.clients.get_mut(&clients[1]).unwrap().renewed = table.now;
    come(&mut table, 16);
    let mut expected = vec![true; 16];
    expected[2] = false;
    assert_eq!(known(&table, &clients), expected);
    // All that are left hold something, or were heard of a moment ago.
    for client in table.state.clients.values_mut() {
        client.renewed = table.now;
    }
    assert_eq!(table.client_from(17, 17), Err(NfsStat4::Delay));
    table.pass(Duration::from_secs(16));
    assert!(table.client_from(17, 17).is_ok());
}

#[test]
fn an_address_that_has_most_of_all_clients_makes_space_first() {
    let mut table = Table::new();
    table.state.limits.clients = 16;
    let quiet: Vec<_> = (0..8)
        .map(|host| table.client_from(host, 100 + host as u8))
        .collect();
    let quiet: Vec<_> = quiet.into_iter().map(Result::unwrap).collect();
    table.pass(Duration::from_secs(60));
    for number in 100..200 {
        table.client_from(number, 1).unwrap();
        assert!(known(&table, &quiet).iter().all(|known| *known));
    }
    assert_eq!(table.state.counts().clients, 16);
}

/// Newcomers that said something every few seconds kept out a client until the grace period was over, and what it held was lost.
#[test]
fn who_comes_back_after_a_restart_goes_before_all_that_hold_nothing() {
    let mut table = Table::after_restart(&["client 0", "client 1"]);
    table.state.limits.clients = 16;
    for number in 2..18 {
        table.client_from(number, number as u8).unwrap();
    }
    for number in 0..2 {
        assert_eq!(table.client_from(18, 18), Err(NfsStat4::Delay));
        table.client_from(number, number as u8).unwrap();
    }
    assert_eq!(table.state.counts().clients, 16);
    // Nobody is left who may reclaim, and everybody waits again.
    assert_eq!(table.client_from(18, 18), Err(NfsStat4::Delay));
}

#[test]
fn who_may_yet_reclaim_does_not_go_for_others() {
    let mut table = Table::after_restart(&["client 0"]);
    table.state.limits.clients = 1;
    let exchanged = table.exchange("client 0", 1, 0).unwrap();
    table.create(exchanged.client, exchanged.sequence).unwrap();
    table.pass(Duration::from_secs(20));
    assert_eq!(table.client_from(1, 1), Err(NfsStat4::Delay));
    table.reclaim_complete(exchanged.client).unwrap();
    table.pass(Duration::from_secs(20));
    assert!(table.client_from(1, 1).is_ok());
}
