//! What this replica proposes to the set.

use std::time::Duration;

use tokio::time::timeout;
use vfs::ReplicaSlot;
use view::{Decision, DecisionKind, Outcome};

use crate::driver::local_replica::LocalReplica;
use crate::state::time::unix_seconds;

/// Logged once; repeats are summed later.
const ALONE: &str =
    "a replica does not leave the view: nobody else there has everything that it has answered";

impl LocalReplica {
    /// A decision to propose in the name of this replica, with the view that it knows.
    pub(crate) fn decision(&self, kind: DecisionKind) -> Decision {
        Decision {
            by: self.slot(),
            at_unix_s: unix_seconds(),
            seen_epoch: self.lease.view().epoch.0,
            kind,
        }
    }

    /// Proposes that a member leaves the view, unless only that member has everything that was answered.
    pub(crate) async fn exclude(&self, slot: ReplicaSlot, reason: &str) {
        if !self.can_do_without(slot) {
            if let Some(sum) = self.state.repeats.is_to_tell(ALONE, slot) {
                tracing::warn!(peer = slot.0, reason, %sum, "{ALONE}");
            }
            return;
        }
        let decision = self.decision(DecisionKind::Exclude {
            slot,
            reason: reason.to_owned(),
        });
        if self.decide(decision).await {
            tracing::warn!(peer = slot.0, reason, "a replica leaves the view");
        }
    }

    /// Whether the set decided so. `false` also if that is not known in time: the next attempt proposes it again.
    pub(crate) async fn decide(&self, decision: Decision) -> bool {
        /// An attempt takes at most this long, and never longer than the silence after which a member is suspected.
        const LONGEST: Duration = Duration::from_secs(2);
        let Some(views) = self.views.get() else {
            return false;
        };
        let limit = self.state.settings.suspicion.min(LONGEST);
        match timeout(limit, views.decide(decision)).await {
            Ok(Ok(Outcome::Applied)) => return true,
            Ok(Ok(Outcome::Refused(why))) => tracing::debug!(why, "no replica leaves the view"),
            Ok(Err(error)) => tracing::debug!(%error, "nothing is decided"),
            Err(_elapsed) => tracing::debug!("nothing is decided in time"),
        }
        false
    }
}
