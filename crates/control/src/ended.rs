//! Which controls of every other replica have ended, so that a late proposal does not revive one.
//!
//! A replica numbers its proposals consecutively and says with each message below which number
//! everything has ended everywhere (the floor). So the memory is one number and the few ends above it,
//! however long the replicas run.

use crate::name::{ControlName, Incarnation};
use std::collections::{BTreeMap, BTreeSet};
use vfs::ReplicaSlot;

#[derive(Clone, Debug, Default)]
struct Ends {
    floor: u64,
    above: BTreeSet<u64>,
}

/// The ended controls of all replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedControls {
    by_origin: BTreeMap<(ReplicaSlot, Incarnation), Ends>,
    /// Everything of these replicas' earlier incarnations has ended.
    renounced: BTreeMap<ReplicaSlot, Incarnation>,
}

impl EndedControls {
    pub(crate) fn contains(&self, name: ControlName) -> bool {
        if self.is_renounced(name) {
            return true;
        }
        let ends = self.by_origin.get(&(name.holder, name.incarnation));
        ends.is_some_and(|ends| name.number < ends.floor || ends.above.contains(&name.number))
    }

    fn is_renounced(&self, name: ControlName) -> bool {
        let before = self.renounced.get(&name.holder);
        before.is_some_and(|before| name.incarnation < *before)
    }

    /// Takes note that everything `holder` held or proposed before this incarnation has ended.
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
        let ends = self.ends_of(name);
        if name.number >= ends.floor {
            ends.above.insert(name.number);
        }
    }

    /// Takes note that everything of that incarnation below `floor` has ended. A smaller floor than
    /// known comes from a late message and changes nothing.
    pub(crate) fn raise_floor(&mut self, origin: ControlName, floor: u64) {
        if self.is_renounced(origin) {
            return;
        }
        let ends = self.ends_of(origin);
        if floor > ends.floor {
            ends.floor = floor;
            ends.above = ends.above.split_off(&floor);
        }
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
