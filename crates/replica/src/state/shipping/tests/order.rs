//! The order of files, how long a change rests, and what is remembered of it.

use super::world::{BUSY_DELAY, DELAY, settings};
use crate::state::shipping::{Backlog, Piece, Settings};
use control::{Moment, Position};
use vfs::ObjectId;

const DUE: Moment = Moment(DELAY);

/// No file.
const NONE: [u64; 0] = [];

fn file(number: u64) -> ObjectId {
    ObjectId::from_u64(number)
}

fn backlog() -> Backlog {
    Backlog::new(Settings {
        max_ranges: 16,
        detailed_files: 16,
        in_flight_bytes: 1 << 20,
        ..settings()
    })
}

fn change(backlog: &mut Backlog, now: Moment, number: u64, range: std::ops::Range<u64>) {
    backlog.changed(now, file(number), range, Position(now.0 + 1));
}

fn drain(backlog: &mut Backlog, now: Moment) -> Vec<Piece> {
    std::iter::from_fn(|| backlog.next(now)).collect()
}

fn numbers(pieces: &[Piece]) -> Vec<u64> {
    pieces.iter().map(|piece| piece.file.as_u64()).collect()
}

#[test]
fn a_fresh_change_rests_and_overwrites_do_not_prolong_it() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..4);
    change(&mut backlog, Moment(3), 1, 2..6);
    assert_eq!(backlog.next(Moment(DELAY - 1)), None);
    assert_eq!(backlog.next_due(), Some(DUE));
    let piece = backlog.next(DUE).unwrap();
    assert_eq!((piece.range, piece.follows), (0..6, Position(4)));
    assert_eq!(backlog.next_due(), None);
    assert_eq!(backlog.acknowledged(piece.id), Some(file(1)));
    assert_eq!(backlog.acknowledged(piece.id), None, "only once");
}

#[test]
fn what_is_removed_before_it_is_due_is_never_sent() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..4);
    change(&mut backlog, Moment(0), 2, 0..9);
    backlog.removed(file(1));
    backlog.cut(file(2), 3, Position(9));
    let pieces = drain(&mut backlog, DUE);
    assert_eq!(numbers(&pieces), [2]);
    assert_eq!(pieces[0].range, 0..3);
}

#[test]
fn a_huge_file_does_not_delay_small_ones() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..40);
    change(&mut backlog, Moment(1), 3, 0..4);
    change(&mut backlog, Moment(2), 2, 0..4);
    let pieces = drain(&mut backlog, Moment(100));
    assert_eq!(numbers(&pieces), [1, 3, 2, 1, 1, 1, 1]);
}

#[test]
fn files_that_became_due_together_take_turns() {
    let mut backlog = backlog();
    for number in [2, 1] {
        change(&mut backlog, Moment(0), number, 0..24);
    }
    let pieces = drain(&mut backlog, DUE);
    assert_eq!(numbers(&pieces), [2, 1, 2, 1, 2, 1]);
}

#[test]
fn a_part_that_is_written_again_and_again_does_not_hold_up_the_rest() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..24);
    let mut starts = Vec::new();
    for _ in 0..4 {
        let piece = backlog.next(DUE).unwrap();
        backlog.acknowledged(piece.id);
        starts.push(piece.range.start);
        change(&mut backlog, DUE, 1, 0..8);
    }
    assert_eq!(starts, [0, 8, 16, 0]);
}

#[test]
fn a_file_somebody_waits_for_goes_first_and_rests_no_more() {
    let mut backlog = backlog();
    for number in [1, 2, 3] {
        change(&mut backlog, Moment(number), number, 0..4);
    }
    backlog.expedite(Moment(4), file(3));
    let expedited = backlog.next(Moment(4)).unwrap();
    assert_eq!(expedited.file, file(3));
    assert_eq!(backlog.next(Moment(4)), None);
    change(&mut backlog, Moment(5), 3, 0..2);
    backlog.acknowledged(expedited.id);
    assert_eq!(backlog.next(Moment(5)).unwrap().range, 0..2);
}

#[test]
fn every_piece_of_a_file_somebody_waits_for_goes_before_others_that_have_not_waited_long() {
    let minute: u64 = 60_000_000;
    let mut backlog = backlog();
    change(&mut backlog, Moment(minute), 1, 0..80);
    change(&mut backlog, Moment(minute + 1), 2, 0..800);
    let rested = minute + 1 + DELAY;
    backlog.expedite(Moment(rested), file(2));
    let mut next = |now| {
        let piece = backlog.next(Moment(now)).unwrap();
        backlog.acknowledged(piece.id);
        piece.file
    };
    assert_eq!([0; 3].map(|_| next(rested)), [file(2); 3]);
    let seconds = |count: u64| rested + count * 1_000_000;
    assert_eq!(next(seconds(9)), file(2));
    let late = [0; 3].map(|_| next(seconds(11)));
    assert_eq!(late, [file(2), file(1), file(2)]);
}

#[test]
fn when_somebody_waits_for_everything_nothing_known_rests() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..4);
    change(&mut backlog, Moment(1), 2, 0..4);
    backlog.expedite_all(Moment(2));
    assert_eq!(backlog.next_due(), Some(Moment(2)));
    change(&mut backlog, Moment(3), 3, 0..4);
    assert_eq!(numbers(&drain(&mut backlog, Moment(3))), [1, 2]);
    assert_eq!(backlog.next_due(), Some(Moment(3 + DELAY)));
}

fn rest_on(backlog: &mut Backlog, now: Moment, is_busy: bool) -> Vec<u64> {
    let mut resting = Vec::new();
    while let Some(file) = backlog.would_rest(now, is_busy) {
        backlog.put_off(file);
        resting.push(file.as_u64());
    }
    resting
}

#[test]
fn much_that_nobody_asks_for_rests_on_while_it_would_be_in_the_way() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..40);
    change(&mut backlog, Moment(0), 2, 0..4);
    backlog.suspected(Moment(0), file(3), Position(1));
    assert_eq!(rest_on(&mut backlog, Moment(DELAY - 1), true), NONE);
    assert_eq!(rest_on(&mut backlog, DUE, false), NONE);
    assert_eq!(rest_on(&mut backlog, DUE, true), [1]);
    assert_eq!(backlog.resting(), 1);
    let sent = [backlog.next(DUE).unwrap(), backlog.next(DUE).unwrap()];
    assert_eq!(
        numbers(&sent),
        [2, 3],
        "little, and what may be there already"
    );
    backlog.removed(file(3));
    let longest = Moment(BUSY_DELAY);
    assert_eq!(backlog.next_due(), Some(longest));
    assert_eq!(rest_on(&mut backlog, longest, true), NONE);
    assert_eq!(numbers(&drain(&mut backlog, longest)), [1; 5]);
    assert_eq!(backlog.resting(), 0);
}

#[test]
fn what_somebody_waits_for_does_not_rest_on_and_nothing_is_in_its_way() {
    let mut backlog = backlog();
    for number in [1, 2, 3] {
        change(&mut backlog, Moment(0), number, 0..16);
    }
    assert_eq!(rest_on(&mut backlog, DUE, true), [1, 2, 3]);
    backlog.expedite(DUE, file(2));
    backlog.expedite(DUE, file(2));
    assert_eq!(backlog.resting(), 2);
    let sent = drain(&mut backlog, DUE);
    assert_eq!(numbers(&sent), [2, 2]);
    change(&mut backlog, DUE, 4, 0..16);
    let later = DUE.after(std::time::Duration::from_micros(DELAY));
    assert_eq!(
        rest_on(&mut backlog, later, false),
        [4],
        "2 has not arrived"
    );
    for piece in sent {
        backlog.acknowledged(piece.id);
    }
    change(&mut backlog, DUE, 5, 0..16);
    assert_eq!(rest_on(&mut backlog, later, false), NONE);
    backlog.removed(file(3));
    // An operation waits for everything.
    backlog.expedite_all(later);
    assert_eq!(backlog.resting(), 0);
    assert_eq!(rest_on(&mut backlog, later, true), NONE);
    let mut sent = numbers(&drain(&mut backlog, later));
    sent.sort_unstable();
    assert_eq!(sent, [1, 1, 4, 4, 5, 5]);
}

/// A log that another site had read once, and that was always being appended to, delayed all large files.
#[test]
fn a_file_that_is_written_all_the_time_is_waited_for_once() {
    let (mut backlog, rest) = (backlog(), std::time::Duration::from_micros(DELAY));
    change(&mut backlog, Moment(0), 1, 0..4);
    let first = backlog.next(DUE).unwrap();
    change(&mut backlog, DUE, 1, 4..6);
    backlog.expedite(DUE, file(1));
    change(&mut backlog, DUE, 2, 0..16);
    backlog.acknowledged(first.id);
    // What was changed before the operation began to wait is not in the round that was under way.
    let second = backlog.next(DUE).unwrap();
    assert_eq!((second.file, second.range), (file(1), 4..6));
    let now = DUE.after(rest);
    change(&mut backlog, now, 1, 6..8);
    let third = backlog.next(now).unwrap();
    assert_eq!(third.file, file(1));
    assert_eq!(rest_on(&mut backlog, now, false), [2]);
    backlog.acknowledged(second.id);
    assert!(backlog.lacks(file(1)), "it is written all the time");
    change(&mut backlog, now, 3, 0..16);
    let later = now.after(rest);
    assert_eq!(rest_on(&mut backlog, later, false), NONE);
    assert_eq!(numbers(&drain(&mut backlog, later)), [3, 3]);
    backlog.acknowledged(third.id);
    // Another wait for it is served.
    change(&mut backlog, later, 1, 0..4);
    backlog.expedite(later, file(1));
    assert_eq!(numbers(&drain(&mut backlog, later)), [1]);
    change(&mut backlog, later, 4, 0..16);
    let later = later.after(rest);
    assert_eq!(rest_on(&mut backlog, later, false), [4]);
}

#[test]
fn what_another_site_changes_does_not_rest_on_and_little_rests_as_it_did() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..16);
    change(&mut backlog, Moment(0), 2, 0..4);
    assert!(backlog.expedite_much(Moment(1), file(1)));
    assert!(!backlog.expedite_much(Moment(1), file(2)));
    assert!(!backlog.expedite_much(Moment(1), file(3)));
    assert_eq!(numbers(&drain(&mut backlog, Moment(1))), [1, 1]);
    assert_eq!(numbers(&drain(&mut backlog, DUE)), [2]);
}

#[test]
fn a_session_that_ends_makes_everything_in_flight_lacking() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..20);
    let pieces = drain(&mut backlog, DUE);
    assert_eq!(pieces.len(), 3);
    backlog.acknowledged(pieces[1].id);
    backlog.lost(DUE);
    assert_eq!(
        backlog.acknowledged(pieces[0].id),
        None,
        "of an ended session"
    );
    let again: Vec<_> = drain(&mut backlog, DUE)
        .into_iter()
        .map(|p| p.range)
        .collect();
    assert_eq!(again, [0..8, 16..20]);
    assert_eq!(backlog.oldest(), Some(Moment(0)));
}

#[test]
fn a_removed_file_does_not_come_back_with_the_session() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..20);
    assert!(backlog.next(DUE).is_some());
    backlog.removed(file(1));
    backlog.lost(DUE);
    assert_eq!(
        (backlog.files(), backlog.bytes(), backlog.oldest()),
        (0, 0, None)
    );
    assert_eq!(backlog.next(Moment(100)), None);
}

/// Found with the model: a late write brought a removed file back, and the loss of an earlier piece ended its rest.
#[test]
fn a_late_change_of_a_removed_file_rests_like_any_other() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..4);
    assert!(backlog.next(DUE).is_some());
    backlog.removed(file(1));
    change(&mut backlog, DUE, 1, 0..4);
    backlog.lost(DUE);
    assert_eq!(backlog.next(DUE), None);
}

#[test]
fn a_file_of_unknown_length_ends_where_its_reader_says() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..u64::MAX);
    assert_eq!(backlog.bytes(), u64::MAX);
    let first = backlog.next(DUE).unwrap();
    let second = backlog.next(DUE).unwrap();
    backlog.found_end(first.id, 5);
    backlog.found_end(second.id, 5);
    assert_eq!(backlog.bytes(), 5);
    assert_eq!(backlog.next(DUE), None);
    assert_eq!(backlog.acknowledged(second.id), None);
    assert_eq!(backlog.acknowledged(first.id), Some(file(1)));
}

#[test]
fn an_end_found_before_a_change_hides_nothing() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..u64::MAX);
    let piece = backlog.next(DUE).unwrap();
    change(&mut backlog, DUE, 1, 90..95);
    backlog.found_end(piece.id, 5);
    backlog.acknowledged(piece.id);
    assert!(backlog.lacks(file(1)));
}

#[test]
fn what_is_changed_later_is_not_owed() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..4);
    backlog.owe();
    let piece = backlog.next(DUE).unwrap();
    change(&mut backlog, DUE, 1, 0..9);
    assert!(backlog.owes(file(1)), "it is in flight");
    backlog.acknowledged(piece.id);
    assert!(backlog.lacks(file(1)) && !backlog.owes(file(1)));
    backlog.owe();
    assert!(backlog.owes(file(1)));
    backlog.removed(file(1));
    assert!(!backlog.owes(file(1)));
}

#[test]
fn a_piece_that_failed_is_still_owed() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..4);
    let piece = backlog.next(DUE).unwrap();
    backlog.owe();
    backlog.failed(DUE, piece.id, file(1), 0..4, Position(9));
    assert!(backlog.owes(file(1)));
    let again = backlog.next(Moment(9 * DELAY)).unwrap();
    backlog.lost(Moment(9 * DELAY));
    assert!(backlog.owes(file(1)), "{again:?} was lost");
    let again = backlog.next(Moment(9 * DELAY)).unwrap();
    assert_eq!(backlog.acknowledged(again.id), Some(file(1)));
    assert!(!backlog.owes(file(1)));
}

#[test]
fn the_end_of_a_file_is_found_while_it_is_written() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 0..u64::MAX);
    backlog.owe();
    let piece = backlog.next(DUE).unwrap();
    change(&mut backlog, DUE, 1, 2..4);
    backlog.found_end(piece.id, 5);
    assert_eq!(backlog.acknowledged(piece.id), None);
    assert!(!backlog.owes(file(1)));
    let rest = drain(&mut backlog, Moment(9 * DELAY));
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].range, 2..4);
}

#[test]
fn in_flight_bytes_are_bounded() {
    let mut backlog = Backlog::new(settings());
    for number in 1..100 {
        change(&mut backlog, Moment(0), number, 0..4);
    }
    let pieces = drain(&mut backlog, DUE);
    assert_eq!(pieces.len(), 4, "each costs its bytes and a little more");
    assert_eq!(backlog.next_due(), None, "only acknowledgements help");
    backlog.acknowledged(pieces[0].id);
    assert!(backlog.next_due().is_some_and(|due| due <= DUE));
}

#[test]
fn files_on_top_of_the_detailed_ones_have_one_range() {
    let mut backlog = Backlog::new(settings());
    for number in 1..=3 {
        change(&mut backlog, Moment(0), number, 0..1);
        change(&mut backlog, Moment(0), number, 5..6);
    }
    assert_eq!(backlog.bytes(), 2 + 2 + 6);
}

#[test]
fn a_hundred_thousand_files_cost_little_each() {
    let mut backlog = Backlog::new(Settings::default());
    for number in 1..=100_000 {
        change(&mut backlog, Moment(number), number, 0..4);
    }
    backlog.expedite_all(Moment(200_000));
    let mut complete = 0;
    while let Some(piece) = backlog.next(Moment(200_000)) {
        complete += usize::from(backlog.acknowledged(piece.id).is_some());
    }
    assert_eq!((complete, backlog.files()), (100_000, 0));
}

#[test]
fn what_was_changed_lately_is_told_from_what_is_old() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(10), 1, 0..4);
    change(&mut backlog, Moment(20), 2, 0..4);
    change(&mut backlog, Moment(30), 1, 4..8);
    assert_eq!(backlog.files_since_before(Moment(10)), 0);
    assert_eq!(backlog.files_since_before(Moment(11)), 1);
    assert_eq!(backlog.files_since_before(Moment(21)), 2);
}

/// A file that was written faster than it arrived counted as lacking since its first write, for ever: with more than 64 such files no absent replica
/// was admitted.
#[test]
fn what_is_written_all_the_time_is_not_old_while_it_arrives() {
    let (mut backlog, rest) = (backlog(), std::time::Duration::from_micros(DELAY));
    change(&mut backlog, Moment(0), 1, 0..4);
    let mut now = Moment(0);
    for _ in 0..50 {
        now = now.after(rest);
        let piece = backlog.next(now).unwrap();
        // It is written again while that is on its way.
        change(&mut backlog, now, 1, 0..4);
        now = now.after(rest);
        assert_eq!(backlog.acknowledged(piece.id), None);
    }
    let two_rounds = now.before(4 * rest);
    assert_eq!(backlog.files_since_before(two_rounds), 0);
    assert_eq!(backlog.files_since_before(now), 1);
    // What does not arrive grows old, even if everything else arrives.
    let stuck = backlog.next(now.after(rest)).unwrap();
    for _ in 0..50 {
        now = now.after(rest);
        change(&mut backlog, now, 1, 8..12);
        if let Some(piece) = backlog.next(now.after(rest)) {
            backlog.acknowledged(piece.id);
        }
    }
    assert_eq!(backlog.files_since_before(now.before(40 * rest)), 1);
    backlog.lost(now);
    assert_eq!(backlog.files_since_before(now.before(40 * rest)), 1);
    assert_eq!(backlog.acknowledged(stuck.id), None);
}

#[test]
fn a_range_is_there_when_nothing_of_it_is_to_be_sent_or_acknowledged() {
    let mut backlog = backlog();
    change(&mut backlog, Moment(0), 1, 4..20);
    let lacks = |backlog: &Backlog, range| backlog.lacks_of(file(1), range);
    assert!(!lacks(&backlog, 0..4) && !lacks(&backlog, 20..30));
    let first = backlog.next(DUE).unwrap();
    assert_eq!(first.range, 4..12);
    assert!(lacks(&backlog, 0..5), "it is on its way");
    backlog.acknowledged(first.id);
    assert!(!lacks(&backlog, 0..12));
    assert!(lacks(&backlog, 11..13), "it is to be sent");
    change(&mut backlog, DUE, 1, 5..6);
    assert!(lacks(&backlog, 0..12) && !lacks(&backlog, 6..12));
}

/// A hole of a terabyte was walked in pieces of a megabyte, for minutes.
#[test]
fn a_hole_is_one_piece_as_far_as_it_is_lacking() {
    let mut backlog = backlog();
    backlog.suspected(Moment(0), file(1), Position(1));
    let first = backlog.next(DUE).unwrap();
    let reach = |backlog: &mut Backlog, id, end| {
        let (range, follows) = backlog.reaches(id, end)?;
        Some((range, follows.0))
    };
    assert_eq!(
        reach(&mut backlog, first.id, 1 << 40),
        Some((0..1 << 40, 1))
    );
    assert!(backlog.in_flight_bytes() < 1 << 10, "it has no bytes");
    // What is written there meanwhile waits; what is behind it does not.
    change(&mut backlog, DUE, 1, 5..6);
    let second = backlog.next(DUE).unwrap();
    assert_eq!(second.range, 1 << 40..(1 << 40) + settings().piece_bytes);
    let reached = reach(&mut backlog, first.id, 1 << 50);
    assert_eq!(reached.unwrap().0, 0..1 << 40);
    backlog.found_end(second.id, 1 << 40);
    assert_eq!(backlog.acknowledged(second.id), None);
    assert_eq!(backlog.next(DUE), None);
    // The hole was shorter after all: the rest is due.
    assert_eq!(reach(&mut backlog, first.id, 100).unwrap().0, 0..100);
    let rest = backlog.next(DUE).unwrap();
    assert_eq!(rest.range.start, 100);
    let reached = reach(&mut backlog, rest.id, 1 << 40);
    assert_eq!(reached.unwrap().0, 100..1 << 40);
    assert_eq!(backlog.acknowledged(rest.id), None);
    assert_eq!(backlog.acknowledged(first.id), None);
    let again = backlog.next(DUE).unwrap();
    assert_eq!(again.range, 5..6);
    assert_eq!(backlog.acknowledged(again.id), Some(file(1)));
    assert_eq!((backlog.in_flight_bytes(), backlog.bytes()), (0, 0));
}

/// The part by which a piece was extended may have been changed after the piece was taken: the piece does not arrive before that change.
#[test]
fn a_piece_that_reaches_further_follows_what_was_changed_there() {
    let mut backlog = backlog();
    backlog.changed(Moment(0), file(1), 0..4, Position(3));
    let piece = backlog.next(DUE).unwrap();
    assert_eq!(piece.follows, Position(3));
    backlog.changed(DUE, file(1), 4..9, Position(8));
    assert_eq!(backlog.reaches(piece.id, 9), Some((0..9, Position(8))));
}
