//! The invariants of a pool (`docs/design/striping.md`), and the judge of each.
//!
//! What must never enter: the judging.

use crate::history::{Act, Event, Right};

/// An invariant as far as a run judges it.
#[derive(Debug)]
pub struct Judged {
    /// Its number in the design, such as P1.
    pub number: &'static str,
    /// Its statement, in short.
    pub says: &'static str,
    /// Its judge, or why it is not judged.
    pub judge: &'static str,
    /// Whether an event is evidence for or against it.
    is_evidence: fn(&Event) -> bool,
}

impl Judged {
    /// The number of events that are evidence.
    pub fn evidence(&self, events: &[Event]) -> usize {
        events
            .iter()
            .filter(|event| (self.is_evidence)(event))
            .count()
    }
}

fn is_sight(event: &Event) -> bool {
    matches!(event.act, Act::Read { .. } | Act::Version { .. }) && event.is_done()
}

fn is_use_of(event: &Event, rights: &[Right]) -> bool {
    matches!(event.act, Act::Old { right, .. } if rights.contains(&right)) && event.is_done()
}

/// All ten invariants.
pub static INVARIANTS: [Judged; 10] = [
    Judged {
        number: "P1",
        says: "an open after a close shows its size and bytes",
        judge: "check::registers, clients with layouts and without",
        is_evidence: is_sight,
    },
    Judged {
        number: "P2",
        says: "nothing succeeds by a right that was taken away",
        judge: "check::rights: removed files at data servers and other metadata servers, narrowed modes",
        is_evidence: |event| {
            let rights = [Right::RemovedThere, Right::Removed, Right::Narrowed];
            is_use_of(event, &rights)
        },
    },
    Judged {
        number: "P3",
        says: "no row lacks bytes that were committed, and no byte is without a row",
        judge: "check::appends for what was committed, at data servers, too. Bytes without a row no client sees: sim",
        is_evidence: |event| matches!(event.act, Act::Append { .. }) && event.is_done(),
    },
    Judged {
        number: "P4",
        says: "a create in a directory of one's own home sends nothing",
        judge: "nobody: clients see no messages between servers, and all objects have one home",
        is_evidence: |_| false,
    },
    Judged {
        number: "P5",
        says: "a forged handle, or one of another generation, is worth nothing",
        judge: "check::rights: flipped bits, handles of before a cut",
        is_evidence: |event| is_use_of(event, &[Right::Forged, Right::Fenced]),
    },
    Judged {
        number: "P6",
        says: "nobody waits for ever",
        judge: "run (every client ends) and stage (all write again when everything is mended)",
        is_evidence: |_| true,
    },
    Judged {
        number: "P7",
        says: "no bytes change under an unchanged change attribute",
        judge: "check::versions",
        is_evidence: |event| matches!(event.act, Act::Version { .. }) && event.is_done(),
    },
    Judged {
        number: "P8",
        says: "nobody sees both names of a rename, or neither",
        judge: "check::searches meanwhile, check::moves in the end",
        is_evidence: |event| matches!(event.act, Act::Search { .. }) && event.is_done(),
    },
    Judged {
        number: "P9",
        says: "a data server that was away answers nothing that was fenced",
        judge: "check::rights: handles of before a cut or a removal, while data servers fail",
        is_evidence: |event| is_use_of(event, &[Right::Fenced, Right::RemovedThere]),
    },
    Judged {
        number: "P10",
        says: "a stat that is repeated sees a change within the copy lease",
        judge: "check::stats",
        is_evidence: |event| matches!(event.act, Act::Stat { .. }) && event.is_done(),
    },
];

#[cfg(test)]
mod tests {
    use super::super::made::{done, unknown};
    use super::*;

    #[test]
    fn evidence_is_what_was_answered_and_is_about_the_invariant() {
        let old = |right| {
            let act = Act::Old {
                right,
                ended: 1,
                served: false,
            };
            done(0, [2, 3], act)
        };
        let events = [
            old(Right::Fenced),
            old(Right::Forged),
            unknown(old(Right::Fenced)),
            done(0, [2, 3], Act::Stat { log: 1, size: 0 }),
        ];
        let counts = INVARIANTS
            .iter()
            .map(|invariant| invariant.evidence(&events));
        assert_eq!(counts.collect::<Vec<_>>(), [0, 0, 0, 0, 2, 4, 0, 0, 1, 1]);
        let numbers = INVARIANTS.iter().map(|invariant| invariant.number);
        let expected = (1..=10).map(|number| format!("P{number}"));
        assert!(numbers.eq(expected));
    }
}
