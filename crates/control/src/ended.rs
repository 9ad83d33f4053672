//! The ended controls of every other replica, so that a late proposal does not revive one.
//!
//! A replica numbers its proposals consecutively. Each message says below which number all of them have ended at all
//! replicas (the floor). So the memory is one number and the runs of ended controls above it. There are no more runs
//! than controls that have not ended, however long the replicas run and one control lasts.

use crate::name::{ControlName, Incarnation};
use std::collections::BTreeMap;
use vfs::ReplicaSlot;

#[derive(Clone, Debug, Default)]
struct Ends {
    floor: u64,
    /// Runs of numbers that have all ended: the first number of each, and the one after its last.
    above: BTreeMap<u64, u64>,
}

impl Ends {
    /// The run that contains a number, or that ends directly before it.
    fn run_up_to(&self, number: u64) -> Option<(u64, u64)> {
        let (first, behind) = self.above.range(..=number).next_back()?;
        Some((*first, *behind))
    }

    fn contains(&self, number: u64) -> bool {
        let run = self.run_up_to(number);
        number < self.floor || run.is_some_and(|(_, behind)| number < behind)
    }

    fn insert(&mut self, number: u64) {
        if self.contains(number) {
            return;
        }
        let adjoining = self.run_up_to(number).filter(|(_, end)| *end == number);
        let first = adjoining.map_or(number, |(first, _)| first);
        let next = number.saturating_add(1);
        let behind = self.above.remove(&next).unwrap_or(next);
        self.above.insert(first, behind);
    }

    fn raise_floor(&mut self, floor: u64) {
        if floor <= self.floor {
            return;
        }
        let run = self.run_up_to(floor).filter(|(_, behind)| *behind > floor);
        self.floor = run.map_or(floor, |(_, behind)| behind);
        self.above = self.above.split_off(&self.floor);
    }
}

/// The ended controls of all replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedControls {
    by_origin: BTreeMap<(ReplicaSlot, Incarnation), Ends>,
    /// Everything of these replicas' incarnations before this one has ended.
    renounced: BTreeMap<ReplicaSlot, Incarnation>,
}

impl EndedControls {
    pub(crate) fn contains(&self, name: ControlName) -> bool {
        if self.is_renounced(name) {
            return true;
        }
        let ends = self.by_origin.get(&(name.holder, name.incarnation));
        ends.is_some_and(|ends| ends.contains(name.number))
    }

    fn is_renounced(&self, name: ControlName) -> bool {
        let before = self.renounced.get(&name.holder);
        before.is_some_and(|before| name.incarnation < *before)
    }

    /// Records that everything that `holder` held or proposed before this incarnation has ended.
    pub(crate) fn renounce(&mut self, holder: ReplicaSlot, before: Incarnation) {
        let known = self.renounced.entry(holder).or_insert(before);
        *known = before.max(*known);
        let before = *known;
        self.by_origin
            .retain(|(other, incarnation), _| *other != holder || *incarnation >= before);
    }

    pub(crate) fn insert(&mut self, name: ControlName) {
        if self.is_renounced(name) {
            return;
        }
        self.ends_of(name).insert(name.number);
    }

    /// Records that everything of that incarnation below `floor` has ended. A floor smaller than the known one comes
    /// from a late message and changes nothing.
    pub(crate) fn raise_floor(&mut self, origin: ControlName, floor: u64) {
        if self.is_renounced(origin) {
            return;
        }
        self.ends_of(origin).raise_floor(floor);
    }

    /// The number of remembered floors and runs.
    pub(crate) fn len(&self) -> usize {
        let runs = self.by_origin.values().map(|ends| 1 + ends.above.len());
        self.renounced.len() + runs.sum::<usize>()
    }

    fn ends_of(&mut self, name: ControlName) -> &mut Ends {
        let origin = (name.holder, name.incarnation);
        self.by_origin.entry(origin).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u64) -> ControlName {
        ControlName {
            holder: ReplicaSlot(1),
            incarnation: Incarnation(1),
            number,
        }
    }

    #[test]
    fn a_floor_replaces_the_ends_below_it() {
        let mut ended = EndedControls::default();
        ended.insert(name(5));
        ended.raise_floor(name(5), 4);
        assert!(ended.contains(name(3)) && ended.contains(name(5)));
        assert!(!ended.contains(name(4)));
        ended.raise_floor(name(5), 2);
        assert!(
            ended.contains(name(3)),
            "a late, smaller floor revives nothing"
        );
        ended.raise_floor(name(5), 9);
        assert!(ended.by_origin.values().all(|ends| ends.above.is_empty()));
    }

    /// One control lasts, because a client has its file open for days; others come and go.
    #[test]
    fn what_has_ended_above_one_that_lasts_is_remembered_as_one_run() {
        let mut ended = EndedControls::default();
        ended.raise_floor(name(5), 5);
        // The ends of neighbouring controls may arrive in any order.
        for pair in 0..50_000 {
            ended.insert(name(7 + 2 * pair));
            ended.insert(name(6 + 2 * pair));
        }
        assert!(!ended.contains(name(5)) && ended.contains(name(6)));
        assert!(ended.contains(name(100_005)) && !ended.contains(name(100_006)));
        assert_eq!(ended.len(), 2, "a floor and a run");
        ended.insert(name(100_007));
        assert_eq!(ended.len(), 3);
        ended.raise_floor(name(5), 50_000);
        assert!(ended.contains(name(100_005)) && !ended.contains(name(100_006)));
        assert_eq!(ended.len(), 2, "the floor took the run that it fell into");
    }

    #[test]
    fn a_later_incarnation_replaces_everything_before_it() {
        let mut ended = EndedControls::default();
        ended.insert(name(5));
        ended.renounce(ReplicaSlot(1), Incarnation(2));
        assert!(ended.contains(name(6)), "whatever its number");
        ended.insert(name(7));
        assert!(ended.by_origin.is_empty(), "nothing more is remembered");
        let incarnation = Incarnation(2);
        let later = ControlName {
            incarnation,
            ..name(1)
        };
        assert!(!ended.contains(later));
    }
}
