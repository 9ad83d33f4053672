//! Limits the log lines about repeated failures.
//!
//! What must never enter: what fails.

use throttle::{Sum, Throttle};
use tokio::time::Instant;
use vfs::ReplicaSlot;

/// Recent failures, each with its subject.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Throttle);

impl Repeats {
    /// Something about a peer has failed. Returns how often, if that should be logged now.
    pub(crate) fn is_to_tell(&self, what: &'static str, about: ReplicaSlot) -> Option<Sum> {
        self.is_to_tell_of(what, u64::from(about.0))
    }

    /// The same for another subject.
    pub(crate) fn is_to_tell_of(&self, what: &'static str, about: u64) -> Option<Sum> {
        self.0.failed((what, about), Instant::now().into_std())
    }

    /// Logs the failures that have ended some time ago.
    pub(crate) fn tell_what_ended(&self) {
        for ((what, _), sum) in self.0.ended(Instant::now().into_std()) {
            if sum.times > 1 {
                tracing::info!(what, %sum, "this has not happened any more");
            }
        }
    }
}
