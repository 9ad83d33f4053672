//! What a change of the configuration must be backed by, beside the consent of a majority.
//!
//! What must never enter: how that is proven.

use crate::decision::Decision;

/// Says whether a change of the configuration is wanted by the member that may want it.
///
/// The leader asks before it proposes one, no matter which member submitted it. A log that has
/// agreed on one is followed: members that judged it apart would have different states.
pub trait Warrant: Send + Sync + 'static {
    /// Whether a [`crate::DecisionKind::Configure`] or [`crate::DecisionKind::Remove`] is backed, as far as is known here.
    ///
    /// # Errors
    /// Why not, for people. The decision is refused, and may be submitted again.
    fn check(&self, decision: &Decision) -> Result<(), String>;
}
