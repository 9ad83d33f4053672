//! An additional condition for changes of the configuration, besides the agreement of a majority.
//!
//! What must never enter: how the condition is proven.

use crate::decision::Decision;

/// Checks whether the responsible member wants a change of the configuration.
///
/// The leader asks before it proposes such a change, whichever member submitted it. Once the log has agreed, all
/// members apply the change: if each member judged it separately, their states would differ.
pub trait Warrant: Send + Sync + 'static {
    /// Whether a [`crate::DecisionKind::Configure`] or [`crate::DecisionKind::Remove`] is wanted, as known here.
    ///
    /// # Errors
    /// The reason why not, for people. The decision is refused, and may be submitted again.
    fn check(&self, decision: &Decision) -> Result<(), String>;
}
