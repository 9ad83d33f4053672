//! How far a member of the view lags behind that lacks too much.
//!
//! What must never enter: how much is too much.

use vfs::{Counted, ReplicaSlot};

/// What a member of the view lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lag {
    pub(crate) slot: ReplicaSlot,
    pub(crate) updates: u64,
    pub(crate) files: usize,
    /// Files that it has, but has not noted that it has.
    pub(crate) untold: usize,
}

impl Lag {
    /// Why it leaves the view, for display.
    pub(crate) fn reason(&self) -> String {
        let Lag {
            updates,
            files,
            untold,
            ..
        } = self;
        format!(
            "it is too slow: it lacks {} and contents of {}, and has not noted {untold} that it has",
            Counted(*updates, "update"),
            Counted(*files as u64, "file")
        )
    }
}
