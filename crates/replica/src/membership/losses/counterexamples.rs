//! Counterexample 14 in one run: what a primary acknowledges as held by a majority, and which copy the survivors take when it is lost. The
//! primary's ledger and the survivors' verdict are the real ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use control::{Moment, Position};
use vfs::{ObjectId, ReplicaSlot};

use crate::state::ledger::Ledger;
use crate::state::losses::{Lacks, Reports, best};
use crate::state::shipping::{Piece, Settings, Unshipped};
use crate::state::wire::Lack;

const FILE: ObjectId = ObjectId::from_u64(7);
const B: ReplicaSlot = ReplicaSlot(2);
const C: ReplicaSlot = ReplicaSlot(3);
const FIRST: Range<u64> = 0..10;
const SECOND: Range<u64> = 10..20;

/// What counts as held, and what a survivor reports about its copy.
#[derive(Clone, Copy)]
struct Rules {
    /// A replica holds the last write only once it has everything written to the file before.
    all_up_to_it: bool,
    /// It reports up to where its copy is complete, not the newest part that it has.
    complete_through: bool,
}

const ALL: Rules = Rules {
    all_up_to_it: true,
    complete_through: true,
};

/// What another replica has of the file.
#[derive(Default)]
struct Copy {
    pieces: Vec<Piece>,
    /// Up to here everything is there, by the primary's word.
    complete: u64,
}

impl Copy {
    fn has(&self, range: &Range<u64>) -> bool {
        let covers =
            |piece: &Piece| piece.range.start <= range.start && range.end <= piece.range.end;
        self.pieces.iter().any(covers)
    }

    fn lacks(&self, rules: Rules) -> Lacks {
        let newest = self.pieces.iter().map(|piece| piece.follows.0).max();
        let lack = Lack {
            file: FILE,
            through: match rules.complete_through {
                true => self.complete,
                false => newest.unwrap_or(0),
            },
            at: u64::MAX,
            follows: 0,
            whole: None,
            majority: true,
        };
        Lacks::from([(FILE, lack)])
    }
}

/// The primary A with the parts of a file that it acknowledged, and what B and C have of the file.
struct Run {
    rules: Rules,
    ledger: Ledger,
    written: u64,
    answered: Vec<Range<u64>>,
    b: Copy,
    c: Copy,
}

impl Run {
    fn new(rules: Rules) -> Run {
        let mut unshipped = Unshipped::new(Settings::default());
        unshipped.add_peer(B);
        unshipped.add_peer(C);
        let mut ledger = Ledger::new(ReplicaSlot(1), unshipped);
        ledger.active = [ReplicaSlot(1), B, C].into();
        ledger.voters = ledger.active.clone();
        Run {
            rules,
            ledger,
            written: 0,
            answered: Vec::new(),
            b: Copy::default(),
            c: Copy::default(),
        }
    }

    fn write(&mut self, range: Range<u64>) {
        self.written += 1;
        let position = Position(self.written);
        let unshipped = &mut self.ledger.unshipped;
        unshipped.changed(Moment(0), FILE, range, position);
    }

    /// The next piece for one of them; it may be in transit for long.
    fn send(&mut self, to: ReplicaSlot) -> Piece {
        let backlog = self.ledger.unshipped.peer(to).unwrap();
        backlog.next(Moment(u64::MAX)).unwrap()
    }

    fn arrive(&mut self, at: ReplicaSlot, piece: Piece) {
        let backlog = self.ledger.unshipped.peer(at).unwrap();
        let complete = backlog.acknowledged(piece.id).is_some();
        let copy = if at == B { &mut self.b } else { &mut self.c };
        if complete {
            copy.complete = self.written;
        }
        copy.pieces.push(piece);
    }

    /// Acknowledges a COMMIT of a part if a majority holds it.
    fn commit(&mut self, range: Range<u64>) {
        let there = self.b.has(&range) || self.c.has(&range);
        if self.ledger.majority_holds(FILE) || (there && !self.rules.all_up_to_it) {
            self.answered.push(range);
        }
    }

    /// A is lost. The survivors go on from the best copy. Returns the acknowledged parts that it lacks.
    fn lost_with_the_primary(&self) -> Vec<Range<u64>> {
        let (b, c) = (self.b.lacks(self.rules), self.c.lacks(self.rules));
        let reports = Reports {
            lacks: [(B, &b), (C, &c)].into(),
            late: BTreeSet::new(),
            of_members: BTreeMap::new(),
        };
        let best = best(&[(ReplicaSlot(1), reports)].into(), FILE).unwrap();
        let copy = if best.slot == B { &self.b } else { &self.c };
        let answered = self.answered.iter();
        answered.filter(|range| !copy.has(range)).cloned().collect()
    }
}

/// A and B hold the first part when COMMIT is acknowledged; C has the second part, and the first arrives there late.
fn play_14(rules: Rules) -> (Run, Piece) {
    let mut run = Run::new(rules);
    run.write(FIRST);
    let to_b = run.send(B);
    let late = run.send(C);
    run.arrive(B, to_b);
    run.commit(FIRST);
    assert_eq!(run.answered, [FIRST]);
    run.write(SECOND);
    let to_c = run.send(C);
    run.arrive(C, to_c);
    run.commit(SECOND);
    (run, late)
}

#[test]
fn counterexample_14_what_was_answered_as_held_by_a_majority_is_in_the_best_copy() {
    let (mut run, late) = play_14(ALL);
    assert_eq!(run.answered, [FIRST], "nobody holds the second part");
    assert_eq!(run.lost_with_the_primary(), []);
    run.arrive(C, late);
    run.commit(SECOND);
    assert_eq!(run.answered, [FIRST, SECOND]);
    assert_eq!(run.lost_with_the_primary(), []);
}

#[test]
fn counterexample_14_a_part_that_is_held_without_what_came_before_is_lost() {
    let (run, _) = play_14(Rules {
        all_up_to_it: false,
        ..ALL
    });
    assert_eq!(run.answered, [FIRST, SECOND]);
    assert_eq!(run.lost_with_the_primary(), [SECOND]);
}

#[test]
fn counterexample_14_the_copy_with_the_newest_part_lacks_an_earlier_one() {
    let (run, _) = play_14(Rules {
        complete_through: false,
        ..ALL
    });
    assert_eq!(run.answered, [FIRST]);
    assert_eq!(run.lost_with_the_primary(), [FIRST]);
}
