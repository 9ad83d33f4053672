//! When copies of files here gave way to others. What was sent of them before then does not count for them afterwards.
//!
//! What must never enter: which copy gives way (`replication::withheld`). The store durably notes that a copy gave way. After a restart, sessions
//! begin in which everything is asked for again.

use std::collections::BTreeMap;

use vfs::{ObjectId, ReplicaSlot};

use crate::state::locks::Table;

/// A file, and a replica whose data of it gave way.
type Of = (ReplicaSlot, ObjectId);

/// What replaced the data: what this replica sent in this epoch.
pub(crate) type InFavourOf = (ReplicaSlot, u64);

#[derive(Default)]
struct Turns {
    turn: u64,
    /// Data that gave way and is still missing: the turn in which it last gave way and, once durably noted, what replaced it.
    gave_way: BTreeMap<Of, (u64, Option<InFavourOf>)>,
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
        turns.gave_way.insert(of, (turn, None));
    }

    /// The store has durably noted that data gave way to this.
    pub(crate) fn noted(&self, of: Of, to: InFavourOf) {
        if let Some((_, gave_way_to)) = self.0.lock().gave_way.get_mut(&of) {
            *gave_way_to = Some(to);
        }
    }

    /// Whether data has given way to this before, and has not come back.
    pub(crate) fn gave_way(&self, of: Of, to: InFavourOf) -> bool {
        let turns = self.0.lock();
        turns
            .gave_way
            .get(&of)
            .is_some_and(|(_, last)| *last == Some(to))
    }

    /// The turn of what is asked for now.
    pub(crate) fn turn(&self) -> u64 {
        self.0.lock().turn
    }

    /// Whether data sent for a wish of this turn restores what gave way.
    pub(crate) fn brings_back(&self, of: Of, wish: u64) -> bool {
        let turns = self.0.lock();
        let gave_way = turns.gave_way.get(&of);
        gave_way.is_none_or(|(turn, _)| wish >= *turn)
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

    #[test]
    fn the_same_data_gives_way_once_to_the_same() {
        let (all, of, to) = (
            GivenWay::default(),
            (ReplicaSlot(2), ObjectId::from_u64(7)),
            (ReplicaSlot(3), 5),
        );
        all.begin(of);
        assert!(!all.gave_way(of, to), "it is not noted");
        all.noted(of, to);
        assert!(all.gave_way(of, to));
        assert!(
            !all.gave_way(of, (ReplicaSlot(3), 6)),
            "in the next epoch another copy may be the best"
        );
        all.begin(of);
        assert!(!all.gave_way(of, to));
    }
}
