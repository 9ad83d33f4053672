//! Which survivor has the best of a file that a lost replica had sent only in part.
//!
//! Everybody decides alike, from what all have reported. What must never enter: how it is sent to the others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use vfs::{ObjectId, ReplicaSlot};

use crate::state::wire::Lack;

/// What each survivor lacks of a lost replica's files.
pub(crate) type Lacks = BTreeMap<ObjectId, Lack>;

/// What the best copy of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quality {
    /// Everything that the lost replica had said about is there.
    Complete,
    /// The version before is there as a whole, up to this size.
    Before(u64),
    /// There is a mixture of versions.
    Mixed,
}

/// The best copy of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Best {
    pub(crate) slot: ReplicaSlot,
    pub(crate) quality: Quality,
}

/// What survivors have of a lost replica's files.
pub(crate) struct Reports<'a> {
    /// What each lacks.
    pub(crate) lacks: BTreeMap<ReplicaSlot, &'a Lacks>,
    /// Those who were outside the view when the replica was lost. A whole version that one of them has may be one that
    /// the others had replaced completely.
    pub(crate) late: BTreeSet<ReplicaSlot>,
}

impl Reports<'_> {
    /// Those of which somebody lacks something.
    pub(crate) fn files(&self) -> BTreeSet<ObjectId> {
        let lacks = self.lacks.values();
        lacks.flat_map(|lacks| lacks.keys()).copied().collect()
    }
}

/// The survivor with the best copy. A version that is whole is better than a mixture; with
/// durability `majority`, where everything that was answered as stable is at the replica that is
/// complete furthest, that one is best.
pub(crate) fn best(reports: &Reports<'_>, file: ObjectId) -> Option<Best> {
    let all = || reports.lacks.values().filter_map(|lacks| lacks.get(&file));
    let majority = all().any(|lack| lack.majority);
    let furthest = all().map(|lack| lack.through).max();
    let lack = |slot: &ReplicaSlot, lacks: &Lacks| {
        let mut lack = lacks.get(&file).copied()?;
        if reports.late.contains(slot) && Some(lack.through) < furthest {
            lack.whole = None;
        }
        Some(lack)
    };
    let rank = |slot: &ReplicaSlot, lacks: &Lacks| match lack(slot, lacks) {
        None => (2, u64::MAX, true),
        Some(lack) if majority => (1, lack.through, lack.whole.is_some()),
        Some(lack) => (u8::from(lack.whole.is_some()), lack.through, true),
    };
    let best = reports
        .lacks
        .iter()
        .max_by_key(|(slot, lacks)| (rank(slot, lacks), Reverse(**slot)));
    let (slot, lacks) = best?;
    let quality = match lack(slot, lacks) {
        None => Quality::Complete,
        Some(Lack {
            whole: Some(size), ..
        }) => Quality::Before(size),
        Some(_) => Quality::Mixed,
    };
    Some(Best {
        slot: *slot,
        quality,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ObjectId = ObjectId::ROOT;

    fn lack(through: u64, whole: Option<u64>, majority: bool) -> Lacks {
        let lack = Lack {
            file: FILE,
            through,
            whole,
            majority,
        };
        Lacks::from([(FILE, lack)])
    }

    fn of(reports: &[Lacks]) -> (u16, Quality) {
        of_whom_came(reports, &[])
    }

    /// Some of them after the replica was lost.
    fn of_whom_came(reports: &[Lacks], late: &[u16]) -> (u16, Quality) {
        let slots = (1..).map(ReplicaSlot);
        let reports = Reports {
            lacks: slots.zip(reports).collect(),
            late: late.iter().copied().map(ReplicaSlot).collect(),
        };
        let best = best(&reports, FILE).unwrap();
        (best.slot.0, best.quality)
    }

    #[test]
    fn a_complete_copy_is_best_and_of_equal_ones_the_first() {
        let (torn, before) = (lack(9, None, false), lack(9, Some(5), false));
        assert_eq!(of(&[torn, before, Lacks::new()]), (3, Quality::Complete));
        assert_eq!(of(&[Lacks::new(), Lacks::new()]), (1, Quality::Complete));
    }

    #[test]
    fn an_older_whole_version_is_better_than_a_newer_mixture() {
        let (torn, before) = (lack(20, None, false), lack(10, Some(5), false));
        assert_eq!(of(&[torn.clone(), before]), (2, Quality::Before(5)));
        assert_eq!(of(&[lack(10, None, false), torn]), (2, Quality::Mixed));
    }

    /// A COMMIT of the first range was answered by A and B; of the second, C has everything and B nothing, and the first
    /// has not come to C. A is lost.
    #[test]
    fn the_newest_copy_does_not_win_over_one_that_is_complete_further() {
        let (first, second) = (10, 20);
        let complete = |b, c| of(&[lack(b, None, true), lack(c, None, true)]).0;
        let (b, c) = (1, 2);
        // C is complete only up to where the first range begins, and so never acknowledged the second.
        assert_eq!(complete(first, first - 1), b);
        // If the newest that each has heard of counted instead, the first range would be lost.
        assert_eq!(complete(first, second), c);
    }

    #[test]
    fn what_was_replaced_while_somebody_was_away_is_not_the_version_before() {
        let (torn, older) = (lack(20, None, false), lack(10, Some(5), false));
        let both = [torn.clone(), older.clone()];
        assert_eq!(of_whom_came(&both, &[2]), (1, Quality::Mixed));
        let same = [torn, lack(20, Some(5), false)];
        assert_eq!(of_whom_came(&same, &[2]), (2, Quality::Before(5)));
        let before = [lack(20, Some(7), false), older];
        assert_eq!(of_whom_came(&before, &[2]), (1, Quality::Before(7)));
    }

    #[test]
    fn with_majority_the_replica_complete_furthest_has_what_was_answered() {
        let (further, before) = (lack(20, None, true), lack(10, Some(5), true));
        assert_eq!(of(&[before, further]), (2, Quality::Mixed));
        // One who knows of the setting is enough.
        let (further, before) = (lack(20, None, false), lack(10, Some(5), true));
        assert_eq!(of(&[before, further]), (2, Quality::Mixed));
    }
}
