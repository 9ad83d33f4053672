//! What is told in the log of what fails again and again.
//!
//! What must never enter: what fails.

use throttle::{Sum, Throttle};
use tokio::time::Instant;
use vfs::ReplicaSlot;

/// What has failed lately, each with what it is about.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Throttle);

impl Repeats {
    /// Something has failed that is about a peer. Returns how often, if that is to be told now.
    pub(crate) fn is_to_tell(&self, what: &'static str, about: ReplicaSlot) -> Option<Sum> {
        self.is_to_tell_of(what, u64::from(about.0))
    }

    /// The same for what is about something else.
    pub(crate) fn is_to_tell_of(&self, what: &'static str, about: u64) -> Option<Sum> {
        self.0.failed((what, about), Instant::now().into_std())
    }

    /// Tells of what has not failed any more for a while.
    pub(crate) fn tell_what_ended(&self) {
        for ((what, _), sum) in self.0.ended(Instant::now().into_std()) {
            if sum.times > 1 {
                tracing::info!(what, %sum, "this has not happened any more");
            }
        }
    }
}
