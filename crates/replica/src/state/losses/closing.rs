//! Lost replicas of which this one takes in nothing more at first hand, in the view in force.
//!
//! What must never enter: when that begins (`membership::losses::closing`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use vfs::ReplicaSlot;

use crate::state::locks::{Table, TableGuard};

/// How far the closing of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// An update that was begun before may still be applied.
    Begun,
    /// What is applied here at first hand is all of it.
    Closed,
}

/// The streams that are closed.
#[derive(Debug, Default)]
pub(crate) struct Closing(Table<BTreeMap<ReplicaSlot, Stage>>);

impl Closing {
    fn all(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, Stage>> {
        self.0.lock()
    }

    /// From now on no update of this one begins to be applied. Says whether that is new.
    pub(crate) fn begin(&self, lost: ReplicaSlot) -> bool {
        match self.all().entry(lost) {
            Entry::Vacant(vacant) => {
                vacant.insert(Stage::Begun);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// The update that was begun before has been applied, if there was one.
    pub(crate) fn complete(&self, lost: ReplicaSlot) {
        if let Some(stage) = self.all().get_mut(&lost) {
            *stage = Stage::Closed;
        }
    }

    /// Whether nothing more of this one is to be taken in at first hand.
    pub(crate) fn has_begun(&self, lost: ReplicaSlot) -> bool {
        self.all().contains_key(&lost)
    }

    /// Those of which nothing more is to be taken in.
    pub(crate) fn begun(&self) -> Vec<ReplicaSlot> {
        self.all().keys().copied().collect()
    }

    /// Those of which nothing more can be applied at first hand.
    pub(crate) fn closed(&self) -> Vec<ReplicaSlot> {
        let all = self.all();
        let closed = all.iter().filter(|(_, stage)| **stage == Stage::Closed);
        closed.map(|(slot, _)| *slot).collect()
    }

    /// Another view is in force: all streams are taken in again.
    pub(crate) fn end_all(&self) {
        self.all().clear();
    }
}
