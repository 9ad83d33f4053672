//! The pool's book: which home decides about which objects (rule 12).

use pool::HomeNumber;
use std::collections::{BTreeMap, BTreeSet};
use vfs::{ObjectId, ReplicaSlot};

/// The home of each slot. Slot 0, the root's, is one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    homes: BTreeMap<ReplicaSlot, HomeNumber>,
}

impl Book {
    /// A book with these slots.
    #[must_use]
    pub fn new(slots: impl IntoIterator<Item = (ReplicaSlot, HomeNumber)>) -> Book {
        Book {
            homes: slots.into_iter().collect(),
        }
    }

    /// The home that decides about the object. `None`: no home of this pool made it.
    #[must_use]
    pub fn home(&self, object: ObjectId) -> Option<HomeNumber> {
        self.homes.get(&object.slot()).copied()
    }

    /// All homes.
    #[must_use]
    pub fn homes(&self) -> BTreeSet<HomeNumber> {
        self.homes.values().copied().collect()
    }
}
