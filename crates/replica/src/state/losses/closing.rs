//! Lost replicas whose updates this replica no longer accepts directly, in the view in force.
//!
//! What must never enter: when the streams are closed (`membership::losses::closing`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use vfs::ReplicaSlot;

use crate::state::locks::{Table, TableGuard};

/// How far the closing of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// An earlier update may still be in progress.
    Begun,
    /// No more updates that came directly can be applied here.
    Closed,
}

/// The streams that are closed.
#[derive(Debug, Default)]
pub(crate) struct Closing(Table<BTreeMap<ReplicaSlot, Stage>>);

impl Closing {
    fn all(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, Stage>> {
        self.0.lock()
    }

    /// From now on no update of this replica begins to be applied. Returns whether the stream was open before.
    pub(crate) fn begin(&self, lost: ReplicaSlot) -> bool {
        match self.all().entry(lost) {
            Entry::Vacant(vacant) => {
                vacant.insert(Stage::Begun);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// The update that was in progress, if any, has been applied.
    pub(crate) fn complete(&self, lost: ReplicaSlot) {
        if let Some(stage) = self.all().get_mut(&lost) {
            *stage = Stage::Closed;
        }
    }

    /// Whether no more updates of this replica are accepted directly.
    pub(crate) fn has_begun(&self, lost: ReplicaSlot) -> bool {
        self.all().contains_key(&lost)
    }

    /// The replicas whose updates are no longer accepted directly.
    pub(crate) fn begun(&self) -> Vec<ReplicaSlot> {
        self.all().keys().copied().collect()
    }

    /// The replicas of which no more updates that come directly can be applied.
    pub(crate) fn closed(&self) -> Vec<ReplicaSlot> {
        let all = self.all();
        let closed = all.iter().filter(|(_, stage)| **stage == Stage::Closed);
        closed.map(|(slot, _)| *slot).collect()
    }

    /// Another view is in force: the updates of all replicas are accepted again.
    pub(crate) fn end_all(&self) {
        self.all().clear();
    }
}
