//! Executions of a pool that no random run reaches, scripted step by step: each breaks an invariant of `docs/design/striping.md` with a rule
//! switched off, and keeps all invariants with every rule in force.

use crate::played::{Broken, OTHER, WRITER, keeps, needed, written};
use pool::home::{Outcome, Request};
use pool::{Access, Act, Rules, StripeUnit, ToDataServer};
use sim::pool::{CellIo, Stage};
use std::time::Duration;

/// Longer than any lease, and longer than Linux waits for a data server in the simulation.
const STALL: Duration = Duration::from_secs(9);

/// How long a home waits for recalled layouts.
const PATIENCE: Duration = Duration::from_secs(2);

/// A read stands still between I/O and answer while the file is cut. A program on the reader's machine opens the file after the cut, finds
/// the page being read, and waits for that answer.
#[test]
fn no_answer_leaves_under_a_lease_that_has_run_out() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        let reader = stage.layout(OTHER, Access::Read);
        let reading = stage.begin(&reader, CellIo::Read(0)).expect("it is leased");
        let cut = stage.request(Request::Change(Act::Truncate(0)));
        assert_eq!(stage.until_done(cut), Outcome::Done);
        let told = stage.end(reading);
        keeps("P9", told.flatten().is_none())
    };
    needed(|rules| rules.lease_checked_before_reply = false, "P9", play);
}

/// A write hangs at the disk while the data server stands still. Its client gives it up, repeats it, and then sends the next write.
#[test]
fn a_write_from_before_a_gap_overtakes_nothing() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        let handle = stage.layout(WRITER, Access::ReadWrite);
        let hanging = stage.begin(&handle, CellIo::WriteStable(0, 2));
        let hanging = hanging.expect("it is leased");
        stage.pass(STALL);
        stage.lease();
        let both = |stage: &mut Stage| {
            let handle = stage.layout(WRITER, Access::ReadWrite);
            let mut write = |value| stage.io(&handle, CellIo::WriteStable(0, value));
            write(2).and_then(|_| write(3)).is_some()
        };
        let early = both(&mut stage);
        stage.end(hanging);
        if !early {
            stage.lease();
            assert!(both(&mut stage), "the next lease counts");
        }
        keeps("P9", stage.value(0) == Some(3))
    };
    needed(|rules| rules.gap_waits = false, "P9", play);
}

/// A data server stands still with an unread write in a connection. Its client gives the write up, repeats it over another connection, and then
/// sends the next write. Only then does the data server read from the first connection, which it has not closed yet.
#[test]
fn a_request_from_before_a_gap_is_not_admitted_behind_it() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        let handle = stage.layout(WRITER, Access::ReadWrite);
        let connected = stage.now();
        stage.pass(STALL);
        stage.lease();
        for value in [2, 3] {
            let write = CellIo::WriteStable(0, value);
            assert_eq!(stage.io(&handle, write), Some(Some(value)));
        }
        if let Some(late) = stage.begin_over(connected, &handle, CellIo::WriteStable(0, 2)) {
            stage.end(late);
        }
        keeps("P9", stage.value(0) == Some(3))
    };
    needed(|rules| rules.gap_drops_requests = false, "P9", play);
}

/// A data server without connection to its home still has a lease that the home has forgotten when it removes the file.
#[test]
fn a_restarted_home_counts_with_leases_that_it_has_forgotten() {
    let play = |rules| {
        let (mut stage, handle) = written(rules);
        stage.lease();
        stage.cut();
        stage.restart_home();
        let removed = stage.request(Request::Change(Act::Remove));
        assert_eq!(stage.until_done(removed), Outcome::Done);
        keeps("P2", stage.io(&handle, CellIo::Read(0)).is_none())
    };
    needed(
        |rules| rules.forgotten_leases_waited_for = false,
        "P2",
        play,
    );
}

/// The file is cut while the data server is away. When it is back, the connection breaks, and the intent is lost.
#[test]
fn a_lease_does_not_overtake_an_intent_that_is_lost() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        let reader = stage.layout(OTHER, Access::Read);
        stage.cut();
        let cut = stage.request(Request::Change(Act::Truncate(0)));
        assert_eq!(stage.until_done(cut), Outcome::Done);
        stage.mend();
        stage.ask();
        stage.home_receives();
        let lost = stage.lose_next();
        assert!(matches!(lost, Some(ToDataServer::Take(..))), "{lost:?}");
        stage.exchange();
        let told = stage.io(&reader, CellIo::Read(0));
        // The next lease request brings the intent again, and the one after it brings a lease.
        stage.lease();
        stage.lease();
        let reader = stage.layout(OTHER, Access::Read);
        let behind = stage.io(&reader, CellIo::Read(0));
        assert_eq!(behind, Some(None), "it serves again, and the cell is cut");
        keeps("P9", told.flatten().is_none())
    };
    needed(|rules| rules.intents_before_lease = false, "P9", play);
}

/// The link breaks while a file is cut to nothing, and is mended when the file is extended again. The data server receives only the second intent.
#[test]
fn a_later_intent_does_not_pass_for_one_that_was_lost() {
    let (mut stage, _) = written(Rules::ALL);
    stage.cut();
    let cut = stage.request(Request::Change(Act::Truncate(0)));
    assert_eq!(stage.until_done(cut), Outcome::Done);
    stage.mend();
    let longer = Act::Truncate(StripeUnit::MIN.bytes());
    let longer = stage.request(Request::Change(longer));
    stage.exchange();
    assert_eq!(stage.until_done(longer), Outcome::Done);
    stage.lease();
    stage.lease();
    let reader = stage.layout(OTHER, Access::Read);
    assert_eq!(stage.io(&reader, CellIo::Read(0)), Some(None), "P9");
}

/// The data server asks for a lease while an intent is on its way, so it gets the intent twice: the second time after the home has written.
#[test]
fn an_intent_that_is_heard_twice_is_carried_out_once() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        let cut = stage.request(Request::Change(Act::Truncate(0)));
        stage.ask();
        stage.home_receives();
        assert!(stage.server_receives_next(), "the intent");
        stage.home_receives();
        assert_eq!(stage.outcome(cut), Some(&Outcome::Done));
        // Before a client gets a layout, the home asks the data server for a report. That request comes
        // after the intent.
        let handle = stage.own_handle();
        let write = CellIo::WriteStable(0, 2);
        assert_eq!(stage.io(&handle, write), Some(Some(2)));
        assert!(stage.server_receives_next(), "the intent again");
        keeps("P3", stage.value(0) == Some(2))
    };
    needed(|rules| rules.intents_once = false, "P3", play);
}

/// A home is restarted at once, with the same key. The client that had the file has lost
/// it, and another client gets it.
#[test]
fn a_handle_of_a_previous_run_of_the_home_writes_nothing() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        let lost = stage.layout(WRITER, Access::ReadWrite);
        stage.restart_home();
        stage.lease();
        let handle = stage.layout(OTHER, Access::ReadWrite);
        let write = CellIo::WriteStable(0, 2);
        assert_eq!(stage.io(&handle, write), Some(Some(2)));
        stage.io(&lost, CellIo::WriteStable(0, 3));
        keeps("P9", stage.value(0) == Some(2))
    };
    needed(|rules| rules.issue_checked = false, "P9", play);
}

/// A client uses the handle of a file that was never fenced before it was removed.
#[test]
fn a_handle_of_a_removed_file_makes_no_contents() {
    let play = |rules| {
        let (mut stage, handle) = written(rules);
        let removed = stage.request(Request::Change(Act::Remove));
        stage.exchange();
        assert_eq!(stage.outcome(removed), Some(&Outcome::Done));
        stage.restart_server();
        stage.lease();
        stage.io(&handle, CellIo::WriteStable(0, 2));
        keeps("P3", stage.value(0).is_none())
    };
    needed(|rules| rules.tombstones = false, "P3", play);
}

/// A data server loses an unstable write that a reader has seen, and then carries out the same number of writes again.
#[test]
fn a_restart_of_a_data_server_changes_what_may_have_been_lost() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        stage.restart_server();
        stage.lease();
        let handle = stage.layout(WRITER, Access::ReadWrite);
        assert_eq!(stage.io(&handle, CellIo::Write(0, 2)), Some(Some(2)));
        let look = stage.request(Request::Look);
        stage.exchange();
        assert!(matches!(stage.outcome(look), Some(Outcome::Size(_))));
        let seen = (stage.change(), stage.value(0));
        stage.restart_server();
        stage.lease();
        assert_eq!(stage.value(0), Some(1), "the write is lost");
        assert_eq!(stage.io(&handle, CellIo::Write(0, 3)), Some(Some(3)));
        stage.request(Request::Return(WRITER));
        stage.exchange();
        let now = (stage.change(), stage.value(0));
        keeps("P7", seen.1 == now.1 || seen.0 != now.0)
    };
    needed(|rules| rules.restart_counts_as_write = false, "P7", play);
}

/// A client reads under a layout for reading. The data server stands still with requests of it in its queue, some sent after the
/// file was cut or removed. Then it handles them, before and under its next lease.
fn queued_across(act: Act, rules: Rules) -> Result<(), Broken> {
    let (mut stage, _) = written(rules);
    let reader = stage.layout(OTHER, Access::Read);
    let serve = |stage: &mut Stage| stage.io(&reader, CellIo::Read(0));
    assert_eq!(serve(&mut stage), Some(Some(1)));
    let queue = stage.connection();
    let change = stage.request(Request::Change(act));
    assert_eq!(stage.until_done(change), Outcome::Done);
    let (late, replayed) = match act {
        Act::Remove => ("P2", "P2"),
        _ => ("P9", "P5"),
    };
    // It continues: one request of the queue comes first, the next after the intent was carried out, and others under a lease.
    keeps(late, serve(&mut stage).is_none())?;
    stage.lease();
    keeps(late, serve(&mut stage).is_none())?;
    stage.lease();
    assert_ne!(stage.connection(), queue, "what lay there is dropped");
    // The client repeats its request, over a new connection.
    keeps(replayed, serve(&mut stage).is_none())?;
    if act != Act::Remove {
        let reader = stage.layout(OTHER, Access::Read);
        assert_eq!(stage.io(&reader, CellIo::Read(0)), Some(None));
    }
    Ok(())
}

#[test]
fn reads_queued_across_a_truncate_are_not_served() {
    let play = |rules| queued_across(Act::Truncate(0), rules);
    needed(|rules| rules.lease_checked = false, "P9", play);
    needed(|rules| rules.generation_checked = false, "P5", play);
}

#[test]
fn reads_queued_across_a_removal_are_not_served() {
    let play = |rules| queued_across(Act::Remove, rules);
    needed(|rules| rules.lease_checked = false, "P2", play);
    needed(|rules| rules.tombstones = false, "P2", play);
}

/// A write is delayed on its way to the data server, which serves all the time. Its client gives the data server up. The home takes this for
/// a loss of the layout. The client continues with a new one.
#[test]
fn a_write_that_is_delivered_late_overtakes_nothing() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        let given_up = stage.layout(WRITER, Access::ReadWrite);
        let lost = stage.request(Request::Lost(WRITER));
        stage.exchange();
        assert!(stage.outcome(lost).is_some());
        stage.lease();
        let handle = stage.layout(WRITER, Access::ReadWrite);
        for value in [2, 3] {
            let write = CellIo::WriteStable(0, value);
            assert_eq!(stage.io(&handle, write), Some(Some(value)));
        }
        stage.io(&given_up, CellIo::WriteStable(0, 2));
        keeps("P9", stage.value(0) == Some(3))
    };
    needed(|rules| rules.losers_fenced = false, "P9", play);
}

/// Every rule is shown to be needed, here or by random runs.
#[test]
fn no_rule_is_left_out() {
    let sources = [
        include_str!("pool.rs"),
        include_str!("pool_keys.rs"),
        include_str!("pool_moves.rs"),
        include_str!("pool_scripted.rs"),
    ]
    .concat();
    let all = format!("{:?}", Rules::ALL);
    let names: Vec<&str> = all
        .split([' ', '{', '}', ','])
        .filter_map(|word| word.strip_suffix(':'))
        .collect();
    assert!(
        names.contains(&"lease_checked") && names.len() > 15,
        "{all}"
    );
    for name in names {
        let switched = format!("rules.{name} = false");
        assert!(sources.contains(&switched), "{name} is never switched off");
    }
}

/// A member of a set is about to acknowledge that another member may change the file. At that moment one of two readers is being fenced, and the data
/// server stands still.
#[test]
fn a_layout_counts_until_its_fence_is_done() {
    let lost = |stage: &mut Stage| {
        stage.request(Request::Lost(WRITER));
    };
    let moved = |stage: &mut Stage| {
        stage.move_file();
        stage.request(Request::Seal);
        stage.pass(PATIENCE);
    };
    for begin in [lost as fn(&mut Stage), moved] {
        let play = |rules| {
            let (mut stage, _) = written(rules);
            stage.lease();
            let readers = [WRITER, OTHER].map(|holder| stage.layout(holder, Access::Read));
            begin(&mut stage);
            if stage.is_held() {
                let fenced = stage.request(Request::Change(Act::Fence));
                assert_eq!(stage.until_done(fenced), Outcome::Done);
            }
            let told = readers.map(|handle| stage.io(&handle, CellIo::Read(0)));
            keeps("P9", told == [None, None])
        };
        needed(|rules| rules.fences_under_way_count = false, "P9", play);
    }
}
