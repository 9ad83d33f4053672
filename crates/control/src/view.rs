//! Who is configured, who is active: what this room is told about views, and how it counts majorities.
//!
//! How views are agreed is somebody else's subject.

use crate::name::Epoch;
use std::collections::BTreeSet;
use vfs::ReplicaSlot;

/// A view of the replication set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its number.
    pub epoch: Epoch,
    /// All replicas of the set; a majority is always counted over these.
    pub configured: BTreeSet<ReplicaSlot>,
    /// The replicas that take part now.
    pub active: BTreeSet<ReplicaSlot>,
}

impl View {
    /// The smallest number of replicas that is more than half of the configured ones.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.configured.len() / 2 + 1
    }

    /// Whether a replica is neither configured nor active, so that it cannot be waited for.
    pub(crate) fn has_lost(&self, replica: ReplicaSlot) -> bool {
        !self.active.contains(&replica)
    }
}
