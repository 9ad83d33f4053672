//! Witnesses: they vote, judge controls and follow names and links like other replicas. They have no contents, and never
//! count as holding anything (rule 36).

use super::World;
use crate::replica::Replica;
use control::{ReplicaSlot, View};

impl World {
    /// Whether a replica has contents.
    pub(crate) fn holds_data(&self, slot: ReplicaSlot) -> bool {
        !self.witnesses.contains(&slot)
    }

    /// The other members with contents.
    pub(super) fn others_with_data(&self, slot: ReplicaSlot) -> Vec<ReplicaSlot> {
        let mut others = self.others(slot);
        others.retain(|other| self.holds_data(*other));
        others
    }

    /// The replicas with contents that were not removed.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Replica> {
        self.remaining()
            .filter(|replica| self.holds_data(replica.slot))
    }

    /// A view, unless only witnesses take part in it.
    pub(super) fn with_data(&self, view: Option<View>) -> Option<View> {
        view.filter(|view| !view.active.is_subset(&self.witnesses) || self.witnesses.is_empty())
    }
}
