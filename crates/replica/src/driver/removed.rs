//! Files that were removed here and that clients of other replicas may have open.
//!
//! What must never enter: which clients have what open, and until when a file is kept.

use std::collections::BTreeMap;

use vfs::{ObjectId, ReplicaSlot};

use crate::driver::engine::Engine;
use crate::state::removed::Counted;

impl Engine {
    /// An earlier start has left these files, each with a place of this replica's stream.
    pub(crate) fn take_up_removed(&self, left: Vec<(u64, ObjectId)>) {
        self.with_core(|guard| guard.ledger.removed.extend(left));
    }

    /// The progress of each of these replicas that may keep a removed file; `None` if there is no such file.
    pub(crate) fn keepers_of_removed(
        &self,
        others: Vec<ReplicaSlot>,
    ) -> Option<BTreeMap<ReplicaSlot, Counted>> {
        self.with_core(|guard| {
            let ledger = &guard.ledger;
            if ledger.removed.is_empty() {
                return None;
            }
            let others = others.into_iter();
            let others = others.filter(|slot| !ledger.witnesses.contains(slot));
            let counted = others.map(|slot| {
                let applied = ledger.applied_by(slot);
                let is_active = ledger.active.contains(&slot);
                (slot, Counted { applied, is_active })
            });
            Some(counted.collect())
        })
    }

    /// The files that were removed up to a place, with their places, except those that are kept.
    pub(crate) fn removed_through(
        &self,
        through: u64,
        is_kept: impl Fn(&ObjectId) -> bool,
    ) -> Vec<(u64, ObjectId)> {
        self.with_core(|guard| {
            let removed = guard.ledger.removed.iter();
            let judged = removed.take_while(|(place, _)| *place <= through);
            judged.filter(|(_, file)| !is_kept(file)).copied().collect()
        })
    }

    /// These files were let go; a file that a client has opened meanwhile stays.
    pub(crate) fn forget_buried(&self, files: Vec<(u64, ObjectId)>) {
        self.with_core(|guard| {
            for (place, file) in files {
                if guard.tree.store.orphan_home(file).is_none() {
                    guard.ledger.removed.remove(&(place, file));
                }
            }
        });
    }
}
