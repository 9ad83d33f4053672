//! Changes of handle keys, scripted step by step (rule 3 of `docs/design/striping.md`).

use crate::played::{OTHER, WRITER, keeps, needed, written};
use pool::home::Request;
use pool::{Access, Act, Rules};
use sim::pool::{CellIo, KEY_LIFE, Stage};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn second(stage: &mut Stage) {
    stage.pass(SECOND);
    stage.lease();
}

/// A client keeps the handle of a removed file, and uses it when the key that sealed it is the previous one. Only the tombstone
/// shows the data server that the file existed.
#[test]
fn a_handle_of_a_previous_key_makes_no_contents_of_a_removed_file() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        stage.pass_keys(1);
        (0..5).for_each(|_| second(&mut stage));
        let kept = stage.layout(WRITER, Access::ReadWrite);
        assert!(stage.io(&kept, CellIo::Read(0)).is_some(), "it counts");
        let removed = stage.request(Request::Change(Act::Remove));
        stage.until_done_exchanging(removed);
        assert_eq!(stage.tombstones(), 1);
        stage.pass_keys(1);
        stage.restart_server();
        stage.lease();
        stage.io(&kept, CellIo::WriteStable(0, 2));
        keeps("P3", stage.value(0).is_none())?;
        // The key stops counting before the tombstone is removed.
        while stage.tombstones() > 0 {
            second(&mut stage);
        }
        stage.io(&kept, CellIo::WriteStable(0, 2));
        keeps("P3", stage.value(0).is_none())
    };
    needed(|rules| rules.tombstones_outlive_keys = false, "P3", play);
}

/// A client does not return its layout. It is fenced while its key counts: no client holds a layout that gives no right.
#[test]
fn a_layout_ends_before_its_key_does() {
    let (mut stage, _) = written(Rules::ALL);
    let held = stage.layout(WRITER, Access::ReadWrite);
    let first = stage.newest_key();
    while stage.is_written_by(WRITER) {
        let served = stage.io(&held, CellIo::Read(0));
        assert_eq!(served, Some(Some(1)), "what is held is served");
        second(&mut stage);
    }
    assert_eq!(stage.newest_key(), first.next(), "the first still counts");
    second(&mut stage);
    assert_eq!(stage.io(&held, CellIo::Read(0)), None, "it was fenced");
    let renewed = stage.layout(WRITER, Access::ReadWrite);
    assert_eq!(stage.io(&renewed, CellIo::Read(0)), Some(Some(1)));
}

/// A client returns its layout for reading when it is asked, and nothing is fenced.
#[test]
fn a_layout_that_is_given_back_needs_no_fence() {
    let (mut stage, _) = written(Rules::ALL);
    let held = stage.layout(OTHER, Access::Read);
    stage.pass_keys(1);
    // It is recalled from half of the key's life on, and may be kept for two seconds.
    stage.pass(KEY_LIFE / 2);
    let returned = stage.request(Request::Return(OTHER));
    assert!(stage.outcome(returned).is_some());
    stage.lease();
    assert_eq!(stage.io(&held, CellIo::Read(0)), Some(Some(1)));
    stage.pass_keys(1);
    assert_eq!(stage.io(&held, CellIo::Read(0)), None, "its key is gone");
}

/// A restarted data server gets both keys that count.
#[test]
fn the_key_before_still_counts_at_a_data_server_that_was_started_anew() {
    let (mut stage, _) = written(Rules::ALL);
    let handle = stage.layout(OTHER, Access::Read);
    stage.pass_keys(1);
    stage.restart_server();
    stage.lease();
    assert_eq!(stage.io(&handle, CellIo::Read(0)), Some(Some(1)));
}

/// A handle is valid from the moment in which it is given, also while the key changes.
#[test]
fn no_handle_is_sealed_with_a_key_that_a_data_server_with_a_lease_does_not_know() {
    let (mut stage, _) = written(Rules::ALL);
    let last = stage.newest_key().next().next();
    while stage.newest_key() < last {
        stage.lease();
        for _ in 0..10 {
            stage.pass(SECOND / 10);
            let asked = stage.request(Request::Return(OTHER));
            assert!(stage.outcome(asked).is_some());
            let handle = stage.layout(OTHER, Access::Read);
            assert_eq!(stage.io(&handle, CellIo::Read(0)), Some(Some(1)));
        }
    }
}
