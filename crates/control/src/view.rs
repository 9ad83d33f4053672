//! Who is configured, who is active: what this module is told about views, and how it counts majorities.
//!
//! How views are agreed is somebody else's subject.

use crate::name::Epoch;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Since which view each active replica has taken part without a break; from the first one if it is
    /// not listed. Somebody may miss a view in which another was away.
    pub since: BTreeMap<ReplicaSlot, Epoch>,
}

impl View {
    /// The first view of a set in which everybody takes part.
    #[must_use]
    pub fn whole(epoch: Epoch, configured: BTreeSet<ReplicaSlot>) -> View {
        View {
            epoch,
            active: configured.clone(),
            configured,
            since: BTreeMap::new(),
        }
    }

    /// The smallest number of replicas that is more than half of the configured ones.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.configured.len() / 2 + 1
    }

    /// How many of the configured replicas may have been enough for a control while one replica
    /// fewer was configured, or one more, which had acknowledged it as well: a member may have been
    /// lost before it told the others, in the new configuration, what it holds. The configuration
    /// changes by one, and not again before everybody has told.
    pub(crate) fn majority_of_neighbours(&self) -> usize {
        self.configured.len().div_ceil(2)
    }

    /// Whether a replica does not take part, so that it cannot be waited for.
    pub(crate) fn has_lost(&self, replica: ReplicaSlot) -> bool {
        !self.active.contains(&replica)
    }

    /// Whether a replica takes part now and has not done so all the time since `previous`, so that it knows
    /// nothing of what was acknowledged then.
    #[must_use]
    pub fn is_new(&self, replica: ReplicaSlot, previous: &View) -> bool {
        let since = self.since.get(&replica).copied().unwrap_or(Epoch(0));
        self.active.contains(&replica)
            && (since > previous.epoch || !previous.active.contains(&replica))
    }
}
