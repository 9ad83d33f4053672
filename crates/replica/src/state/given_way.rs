//! When copies of files here gave way to others, so that what was sent of them before does not count for them afterwards.
//!
//! What must never enter: which copy gives way (`replication::withheld`). That one has is noted durably by the store; with a start sessions begin,
//! in which everything is asked for anew.

use std::collections::BTreeMap;

use vfs::{ObjectId, ReplicaSlot};

use crate::state::locks::Table;

/// A file, and a replica whose data of it gave way.
type Of = (ReplicaSlot, ObjectId);

#[derive(Default)]
struct Turns {
    turn: u64,
    /// In which turn data gave way last that is missing yet.
    gave_way: BTreeMap<Of, u64>,
}

/// See the module. A turn begins with each copy that gives way.
#[derive(Default)]
pub(crate) struct GivenWay(Table<Turns>);

impl GivenWay {
    /// Data gives way: only what is asked for from now on brings it back.
    pub(crate) fn begin(&self, of: Of) {
        let mut turns = self.0.lock();
        turns.turn += 1;
        let turn = turns.turn;
        turns.gave_way.insert(of, turn);
    }

    /// The turn of what is asked for now.
    pub(crate) fn turn(&self) -> u64 {
        self.0.lock().turn
    }

    /// Whether data that was sent because of a wish of this turn is what has given way.
    pub(crate) fn brings_back(&self, of: Of, wish: u64) -> bool {
        let turns = self.0.lock();
        turns.gave_way.get(&of).is_none_or(|turn| wish >= *turn)
    }

    /// The data is here again.
    pub(crate) fn end(&self, of: Of) {
        self.0.lock().gave_way.remove(&of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counterexample_71_what_was_asked_for_before_a_copy_gave_way_does_not_bring_its_data_back() {
        let (all, of) = (GivenWay::default(), (ReplicaSlot(2), ObjectId::from_u64(7)));
        let before = all.turn();
        assert!(all.brings_back(of, before), "nothing gave way");
        all.begin(of);
        assert!(!all.brings_back(of, before));
        assert!(all.brings_back(of, all.turn()));
        let second = all.turn();
        all.begin(of);
        assert!(!all.brings_back(of, second), "it gave way again");
        all.end(of);
        assert!(all.brings_back(of, before));
    }
}
