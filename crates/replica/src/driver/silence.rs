//! Which members of the view are silent.
//!
//! What must never enter: what is decided about them.

use std::collections::BTreeSet;
use std::time::Duration;

use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;

impl LocalReplica {
    /// Members that have not answered for too long or sent nonsense, and members to be removed, which no replica listens to any more. None for a replica
    /// outside the view.
    pub(crate) fn silent(&self) -> BTreeSet<ReplicaSlot> {
        let view = self.lease.view();
        if !view.active.contains(&self.slot()) {
            return BTreeSet::new();
        }
        let limit = self.state.settings.suspicion;
        let news = self.state.peers.news();
        let is_refused = |slot| (self.state.peers).with(slot, |peer| peer.nonsense.is_refused());
        let others = view.active.iter().filter(|slot| **slot != self.slot());
        let silent = others.filter(|slot| {
            let removed = self.state.members.was_removed(**slot);
            let unheard = news.get(slot).map(|news| news.heard.elapsed());
            is_refused(**slot) || is_silent(removed, unheard, limit)
        });
        silent.copied().collect()
    }
}

/// Whether a member counts as silent after this time without an answer; `None` if it was never heard. A removed member always counts as silent.
pub(crate) fn is_silent(removed: bool, unheard: Option<Duration>, limit: Duration) -> bool {
    removed || unheard.is_some_and(|unheard| unheard > limit)
}
