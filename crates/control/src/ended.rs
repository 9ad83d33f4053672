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
}

impl EndedControls {
    pub(crate) fn contains(&self, name: ControlName) -> bool {
        let ends = self.by_origin.get(&(name.holder, name.incarnation));
        ends.is_some_and(|ends| name.number < ends.floor || ends.above.contains(&name.number))
    }

    pub(crate) fn insert(&mut self, name: ControlName) {
        let ends = self.ends_of(name);
        if name.number >= ends.floor {
            ends.above.insert(name.number);
        }
    }

    /// Takes note that everything of that incarnation below `floor` has ended. A smaller floor than
    /// known comes from a late message and changes nothing.
    pub(crate) fn raise_floor(&mut self, origin: ControlName, floor: u64) {
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
}
