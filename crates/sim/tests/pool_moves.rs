//! A file is moved onto the same data server, step by step. Each rule of moves is needed, and every interruption leaves exactly one of both
//! contents.

use crate::played::{OTHER, WRITER, keeps, needed, written};
use pool::home::{FileRow, Outcome, Request};
use pool::{Access, Act, Rules, StripeUnit};
use sim::pool::{CellIo, Stage};

const CELL: u64 = StripeUnit::MIN.bytes();

/// Sends the home a request, and lets all messages arrive.
fn done(stage: &mut Stage, request: Request) -> Option<Outcome> {
    let operation = stage.request(request);
    stage.exchange();
    stage.outcome(operation).cloned()
}

/// Records the move, and copies cells.
fn copied(stage: &mut Stage, cells: &[(u64, u64)]) -> FileRow {
    let (noted, to) = stage.move_file();
    assert_eq!(stage.outcome(noted), Some(&Outcome::Done));
    let alone = stage.request(Request::Alone);
    assert_eq!(stage.until_done_exchanging(alone), Outcome::Done);
    stage.lease();
    for (cell, value) in cells {
        let copy = CellIo::WriteStable(*cell, *value);
        let handle = stage.handle_of(&to);
        assert_eq!(stage.io(&handle, copy), Some(Some(*value)));
    }
    to
}

/// The rest of a move with nothing left to copy. The message that removes the old contents is still on its way.
fn switched(stage: &mut Stage, size: u64) {
    assert_eq!(done(stage, Request::Seal), Some(Outcome::Done));
    let switch = stage.request(Request::Switch(size));
    while stage.outcome(switch).is_none() && stage.server_receives_next() {
        stage.home_receives();
    }
    assert_eq!(stage.outcome(switch), Some(&Outcome::Done));
}

#[test]
fn a_file_is_moved_and_nothing_is_left_where_it_was() {
    let (mut stage, _) = written(Rules::ALL);
    let change = stage.change();
    copied(&mut stage, &[(0, 1)]);
    assert_eq!(stage.contents_kept(), 2);
    switched(&mut stage, CELL);
    stage.exchange();
    assert_eq!((stage.contents_kept(), stage.change()), (1, change));
    stage.lease();
    let handle = stage.layout(WRITER, Access::ReadWrite);
    assert_eq!(stage.io(&handle, CellIo::Read(0)), Some(Some(1)));
    // And back.
    done(&mut stage, Request::Return(WRITER));
    copied(&mut stage, &[(0, 1)]);
    switched(&mut stage, CELL);
    stage.exchange();
    assert_eq!((stage.contents_kept(), stage.value(0)), (1, Some(1)));
}

/// A client gets a layout for writing while the file is copied, and the copy lacks its later writes.
#[test]
fn while_a_file_is_moved_nobody_writes_past_the_home() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        let given = stage.layout(WRITER, Access::ReadWrite);
        copied(&mut stage, &[(0, 1)]);
        assert_eq!(
            stage.io(&given, CellIo::WriteStable(0, 2)),
            None,
            "it is fenced"
        );
        let layout = done(&mut stage, Request::Layout(WRITER, Access::ReadWrite));
        let mut promised = 1;
        if let Some(Outcome::Layout(handles)) = layout {
            assert!(stage.io(&handles[0].1, CellIo::WriteStable(0, 2)).is_some());
            promised = 2;
        }
        // Reading does no harm.
        let reader = stage.layout(OTHER, Access::Read);
        assert_eq!(stage.io(&reader, CellIo::Read(0)), Some(Some(promised)));
        done(&mut stage, Request::Return(OTHER));
        done(&mut stage, Request::Return(WRITER));
        switched(&mut stage, CELL);
        stage.exchange();
        keeps("P3", stage.value(0) == Some(promised))
    };
    needed(|rules| rules.moves_end_writing = false, "P3", play);
}

/// The home crashes while it copies, and the file is never moved again.
#[test]
fn what_was_copied_before_a_restart_goes() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        copied(&mut stage, &[(0, 1)]);
        stage.restart_home();
        stage.lease();
        stage.lease();
        keeps(
            "P3",
            stage.contents_kept() == 1 && stage.value(0) == Some(1),
        )
    };
    needed(|rules| rules.moves_noted_first = false, "P3", play);
}

/// The message that removes the old contents is late. Meanwhile a client writes to the new ones, and then a reader continues with its layout.
#[test]
fn nobody_reads_the_old_contents_once_the_new_ones_count() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        let reader = stage.layout(OTHER, Access::Read);
        copied(&mut stage, &[(0, 1)]);
        let sealed = stage.request(Request::Seal);
        stage.until_done_exchanging(sealed);
        let switch = stage.request(Request::Switch(CELL));
        while stage.outcome(switch).is_none() && stage.server_receives_next() {
            stage.home_receives();
        }
        let handle = stage.own_handle();
        assert!(stage.io(&handle, CellIo::WriteStable(0, 2)).is_some());
        let told = stage.io(&reader, CellIo::Read(0));
        keeps("P9", told.is_none())
    };
    needed(|rules| rules.old_contents_fenced = false, "P9", play);
}

/// The file was cut while it was copied.
#[test]
fn new_contents_end_where_the_file_does() {
    let play = |rules| {
        let (mut stage, _) = written(rules);
        copied(&mut stage, &[(0, 1), (1, 2)]);
        done(&mut stage, Request::Change(Act::Truncate(CELL)));
        switched(&mut stage, CELL);
        stage.exchange();
        stage.lease();
        stage.layout(WRITER, Access::ReadWrite);
        done(&mut stage, Request::Return(WRITER));
        keeps("P1", stage.size() == CELL)
    };
    needed(|rules| rules.new_contents_cut = false, "P1", play);
}

/// The data server is cut off when the new contents have to be cut.
#[test]
fn a_file_stays_where_it_is_when_its_new_data_server_does_not_answer() {
    let (mut stage, _) = written(Rules::ALL);
    copied(&mut stage, &[(0, 1)]);
    assert_eq!(done(&mut stage, Request::Seal), Some(Outcome::Done));
    stage.cut();
    let switch = stage.request(Request::Switch(CELL));
    assert_eq!(stage.until_done(switch), Outcome::NoMove);
    stage.mend();
    for _ in 0..3 {
        stage.lease();
    }
    assert_eq!((stage.contents_kept(), stage.value(0)), (1, Some(1)));
    let handle = stage.layout(OTHER, Access::Read);
    assert_eq!(stage.io(&handle, CellIo::Read(0)), Some(Some(1)));
}

#[test]
fn a_file_that_is_removed_while_it_is_moved_leaves_nothing() {
    let (mut stage, _) = written(Rules::ALL);
    copied(&mut stage, &[(0, 1)]);
    let removed = done(&mut stage, Request::Change(Act::Remove));
    assert_eq!(removed, Some(Outcome::Done));
    assert_eq!(stage.contents_kept(), 0);
}

#[test]
fn a_move_is_given_up_and_begun_anew() {
    let (mut stage, _) = written(Rules::ALL);
    let first = copied(&mut stage, &[(0, 7)]);
    let (again, _) = stage.move_file();
    assert_eq!(
        stage.outcome(again),
        Some(&Outcome::NoMove),
        "one at a time"
    );
    assert_eq!(done(&mut stage, Request::GiveUp), Some(Outcome::Done));
    assert_eq!((stage.contents_kept(), stage.value(0)), (1, Some(1)));
    assert_eq!(done(&mut stage, Request::Seal), Some(Outcome::NoMove));
    let handle = stage.handle_of(&first);
    assert_eq!(stage.io(&handle, CellIo::WriteStable(0, 9)), None, "P5");
    copied(&mut stage, &[(0, 1)]);
    switched(&mut stage, CELL);
    stage.exchange();
    assert_eq!((stage.contents_kept(), stage.value(0)), (1, Some(1)));
}
