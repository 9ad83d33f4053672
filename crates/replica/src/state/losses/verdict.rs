//! Which survivor has the best copy of a file that lost replicas had sent only in part.
//!
//! All survivors decide alike, from the reports of all. The best copy replaces all others, so the choice considers what is missing of all lost
//! replicas together.
//!
//! What must never enter: how the best copy is sent to the others.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use vfs::{ObjectId, ReplicaSlot};

use crate::state::wire::Lack;

/// What a survivor lacks of a lost replica's files.
pub(crate) type Lacks = BTreeMap<ObjectId, Lack>;

/// What a survivor lacks of members' data, of files in question.
pub(crate) type OfMembers = BTreeMap<(ObjectId, ReplicaSlot), Lack>;

/// What all survivors have of the files of each lost replica.
pub(crate) type Told<'a> = BTreeMap<ReplicaSlot, Reports<'a>>;

/// The quality of the best copy of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quality {
    /// It has everything that the lost replica had announced.
    Complete,
    /// It has the whole previous version, up to this size.
    Before(u64),
    /// It is a mixture of versions.
    Mixed,
}

/// The best copy of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Best {
    pub(crate) slot: ReplicaSlot,
    /// What it lacks of each lost replica's data, the earliest first.
    pub(crate) lacks: Vec<(ReplicaSlot, Lack)>,
    /// What it lacks of members' data.
    pub(crate) of_members: Vec<(ReplicaSlot, Lack)>,
}

impl Best {
    /// What the copy lacks of this lost replica's data.
    pub(crate) fn lack(&self, lost: ReplicaSlot) -> Option<Lack> {
        let mut lacks = self.lacks.iter();
        lacks.find(|(of, _)| *of == lost).map(|(_, lack)| *lack)
    }

    /// The quality of the copy with respect to this lost replica's data.
    pub(crate) fn quality(&self, lost: ReplicaSlot) -> Quality {
        match self.lack(lost) {
            None => Quality::Complete,
            Some(Lack {
                whole: Some(size), ..
            }) => Quality::Before(size),
            Some(_) => Quality::Mixed,
        }
    }

    /// Up to this size the copy is the version before everything that is missing.
    fn whole(&self) -> Option<u64> {
        self.lacks.first()?.1.whole
    }

    /// Compares two copies; the better is greater. A copy that lacks a member's data is worse: that member has the data that it answered
    /// (counterexample 79). A whole version is better than a mixture. With durability `majority`, the copy that is complete furthest is best, because
    /// it has everything that was answered as stable.
    fn compare(&self, other: &Best, majority: bool) -> Ordering {
        let of_members = other.of_members.len().cmp(&self.of_members.len());
        of_members.then_with(|| self.compare_lost(other, majority))
    }

    /// The same, by what is missing of lost replicas' data.
    fn compare_lost(&self, other: &Best, majority: bool) -> Ordering {
        let further = match (self.lacks.first(), other.lacks.first()) {
            (None, None) => return other.slot.cmp(&self.slot),
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (Some((of, here)), Some((also, there))) if of == also => {
                // Among copies that are complete equally far, the one that lacks an earlier version is worse: it asked in vain for the whole file
                // (counterexample 75).
                let further = here.through.cmp(&there.through);
                further.then(here.follows.cmp(&there.follows))
            }
            // Controls of one file follow each other, so all that one replica wrote is older than all that the next one wrote.
            (Some((_, here)), Some((_, there))) => here.follows.cmp(&there.follows),
        };
        let whole = self.whole().is_some().cmp(&other.whole().is_some());
        let by_durability = match majority {
            true => further.then(whole),
            false => whole.then(further),
        };
        let fewer = other.lacks.len().cmp(&self.lacks.len());
        by_durability.then(fewer).then(other.slot.cmp(&self.slot))
    }
}

/// What survivors have of a lost replica's files.
pub(crate) struct Reports<'a> {
    /// What each lacks.
    pub(crate) lacks: BTreeMap<ReplicaSlot, &'a Lacks>,
    /// What each lacks of members' data.
    pub(crate) of_members: BTreeMap<ReplicaSlot, &'a OfMembers>,
    /// Replicas that were outside the view when the replica was lost. The others may have completely replaced a whole version that one of these has.
    pub(crate) late: BTreeSet<ReplicaSlot>,
}

impl Reports<'_> {
    /// The files of which some survivor lacks something.
    pub(crate) fn files(&self) -> BTreeSet<ObjectId> {
        let lacks = self.lacks.values();
        lacks.flat_map(|lacks| lacks.keys()).copied().collect()
    }

    fn of<'f>(&'f self, file: &'f ObjectId) -> impl Iterator<Item = &'f Lack> {
        self.lacks.values().filter_map(|lacks| lacks.get(file))
    }

    /// What one survivor lacks of a file.
    fn lack(&self, slot: ReplicaSlot, file: ObjectId) -> Option<Lack> {
        let mut lack = self.lacks.get(&slot)?.get(&file).copied()?;
        let furthest = self.of(&file).map(|lack| lack.through).max();
        if self.late.contains(&slot) && Some(lack.through) < furthest {
            lack.whole = None;
        }
        Some(lack)
    }
}

/// The survivor with the best copy; `None` if no survivor is known to lack anything.
pub(crate) fn best(told: &Told<'_>, file: ObjectId) -> Option<Best> {
    let mut all = told.values().flat_map(|reports| reports.of(&file));
    let majority = all.any(|lack| lack.majority);
    let survivors: BTreeSet<ReplicaSlot> = told
        .values()
        .flat_map(|reports| reports.lacks.keys().copied())
        .collect();
    let copies = survivors.into_iter().map(|slot| {
        let lacks = told.iter();
        let lacks = lacks.filter_map(|(lost, reports)| Some((*lost, reports.lack(slot, file)?)));
        let mut lacks: Vec<(ReplicaSlot, Lack)> = lacks.collect();
        lacks.sort_by_key(|(lost, lack)| (lack.follows, *lost));
        Best {
            slot,
            lacks,
            of_members: of_members(told, slot, file),
        }
    });
    copies.max_by(|one, other| one.compare(other, majority))
}

/// What one survivor lacks of members' data of a file, each member once.
fn of_members(told: &Told<'_>, slot: ReplicaSlot, file: ObjectId) -> Vec<(ReplicaSlot, Lack)> {
    let reports = told.values().filter_map(|one| one.of_members.get(&slot));
    let of_file = (file, ReplicaSlot(0))..=(file, ReplicaSlot(u16::MAX));
    let lacks = reports.flat_map(|missing| missing.range(of_file.clone()));
    let lacks: BTreeMap<ReplicaSlot, Lack> =
        lacks.map(|((_, maker), lack)| (*maker, *lack)).collect();
    lacks.into_iter().collect()
}

/// The survivors that lack something of a file.
pub(crate) fn lacking(told: &Told<'_>, file: ObjectId) -> BTreeSet<ReplicaSlot> {
    let slots = told.values().flat_map(|reports| reports.lacks.keys());
    let lacks = |slot: &ReplicaSlot| {
        let mut lacks = told.values().filter_map(|reports| reports.lacks.get(slot));
        lacks.any(|lacks| lacks.contains_key(&file)) || !of_members(told, *slot, file).is_empty()
    };
    slots.copied().filter(lacks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ObjectId = ObjectId::ROOT;
    const LOST: ReplicaSlot = ReplicaSlot(8);
    const ALSO: ReplicaSlot = ReplicaSlot(9);

    fn lack(through: u64, whole: Option<u64>, majority: bool) -> Lacks {
        let lack = Lack {
            file: FILE,
            through,
            at: through + 1,
            follows: 0,
            whole,
            majority,
        };
        Lacks::from([(FILE, lack)])
    }

    fn of(reports: &[Lacks]) -> (u16, Quality) {
        of_whom_came(reports, &[])
    }

    /// The best copy, when the replicas in `late` joined the view after the replica was lost.
    fn of_whom_came(reports: &[Lacks], late: &[u16]) -> (u16, Quality) {
        let slots = (1..).map(ReplicaSlot);
        let reports = Reports {
            lacks: slots.zip(reports).collect(),
            late: late.iter().copied().map(ReplicaSlot).collect(),
            of_members: BTreeMap::new(),
        };
        let best = best(&[(LOST, reports)].into(), FILE).unwrap();
        (best.slot.0, best.quality(LOST))
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

    /// A and B answered a COMMIT of the first range. Of the second range, C has everything and B nothing; C lacks the first range. A is lost.
    #[test]
    fn the_newest_copy_does_not_win_over_one_that_is_complete_further() {
        let (first, second) = (10, 20);
        let complete = |b, c| of(&[lack(b, None, true), lack(c, None, true)]).0;
        let (b, c) = (1, 2);
        // C is complete only up to where the first range begins, and so never acknowledged the second.
        assert_eq!(complete(first, first - 1), b);
        // If the newest position that each has heard of counted instead, the first range would be lost.
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
        // One replica that knows of the setting is enough.
        let (further, before) = (lack(20, None, false), lack(10, Some(5), true));
        assert_eq!(of(&[before, further]), (2, Quality::Mixed));
    }

    /// Two lost replicas wrote one after the other. The first survivor lacks the second part, the second survivor lacks both, and the third lacks the
    /// first part.
    fn crossing(majority: bool) -> Best {
        let lack = |follows, whole| {
            let mut lacks = lack(10, whole, majority);
            lacks.values_mut().for_each(|lack| lack.follows = follows);
            lacks
        };
        let nothing = Lacks::new();
        let (early, late) = (lack(1, None), lack(5, Some(7)));
        let (older, doubtful) = (lack(1, Some(3)), lack(5, None));
        let reports = |of: [&'static Lacks; 3]| Reports {
            lacks: (1..).map(ReplicaSlot).zip(of).collect(),
            late: BTreeSet::new(),
            of_members: BTreeMap::new(),
        };
        let keep = |lacks: Lacks| -> &'static Lacks { Box::leak(Box::new(lacks)) };
        let nothing = keep(nothing);
        let of_first = [nothing, keep(older), keep(early)];
        let of_second = [keep(late), keep(doubtful), nothing];
        let told = Told::from([(LOST, reports(of_first)), (ALSO, reports(of_second))]);
        assert_eq!(lacking(&told, FILE), [1, 2, 3].map(ReplicaSlot).into());
        best(&told, FILE).unwrap()
    }

    /// The first survivor has all of the lost replica's data, and lacks what the second had written before; the second and the third lack the lost
    /// replica's data.
    #[test]
    fn counterexample_79_a_copy_that_lacks_data_of_a_member_is_worse_than_one_that_lacks_a_lost_ones()
     {
        for majority in [false, true] {
            let (nothing, torn) = (Lacks::new(), lack(9, None, majority));
            let before = OfMembers::from([((FILE, ReplicaSlot(2)), torn[&FILE])]);
            let of_lost = [&nothing, &torn, &torn];
            let reports = Reports {
                lacks: (1..).map(ReplicaSlot).zip(of_lost).collect(),
                of_members: [(ReplicaSlot(1), &before)].into(),
                late: BTreeSet::new(),
            };
            let told = Told::from([(LOST, reports)]);
            let best = best(&told, FILE).unwrap();
            assert_eq!((best.slot.0, best.quality(LOST)), (2, Quality::Mixed));
            assert!(best.of_members.is_empty());
            assert_eq!(lacking(&told, FILE), [1, 2, 3].map(ReplicaSlot).into());
        }
    }

    #[test]
    fn counterexample_66_of_copies_that_lack_parts_of_several_lost_ones_the_latest_is_best() {
        for majority in [false, true] {
            let best = crossing(majority);
            assert_eq!(best.slot, ReplicaSlot(1), "{majority}");
            assert_eq!(best.quality(LOST), Quality::Complete);
            assert_eq!(best.quality(ALSO), Quality::Before(7));
        }
    }
}
