//! The configured and active replicas, as this crate gets them, and the counting of majorities.
//!
//! What must never enter: how views are agreed.

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
    /// The view since which each active replica has been active without interruption; the first view if it is not
    /// listed. A replica may miss a view in which another one was away.
    pub since: BTreeMap<ReplicaSlot, Epoch>,
}

impl View {
    /// The first view of a set in which all replicas are active.
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

    /// The smallest number of acknowledgements that may have been enough for a control while one replica fewer was
    /// configured, or one more, which had acknowledged it as well: a member may have been lost before it reported to
    /// the others, in the new configuration, what it holds. The configuration changes by one member, and not again
    /// before all members have reported.
    pub(crate) fn majority_of_neighbours(&self) -> usize {
        self.configured.len().div_ceil(2)
    }

    /// Whether a replica is inactive, so that waiting for it is useless.
    pub(crate) fn has_lost(&self, replica: ReplicaSlot) -> bool {
        !self.active.contains(&replica)
    }

    /// Whether a replica is active now and has not been active all the time since `previous`, so that it does not know
    /// what was acknowledged then.
    #[must_use]
    pub fn is_new(&self, replica: ReplicaSlot, previous: &View) -> bool {
        let since = self.since.get(&replica).copied().unwrap_or(Epoch(0));
        self.active.contains(&replica)
            && (since > previous.epoch || !previous.active.contains(&replica))
    }
}
