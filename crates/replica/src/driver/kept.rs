//! How much memory is used for the other members, and which member of the view lacks more.
//!
//! A member that lacks more leaves the view. If too few would be left without it, it stays, and changes wait until it lacks less: what a member does
//! not take never grows without bound, whatever else it answers.
//!
//! What must never enter: what follows from it.

use tokio::time::Instant;
use vfs::{Error, ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;
use crate::state::lag::Lag;

/// The memory for a file in bytes, as long as a replica lacks contents of it: its ranges, its places in lists, and the control that stands meanwhile.
const FILE_BYTES: u64 = 1024;

/// For a member of the view, this many times as many updates are kept as for a replica outside.
const UPDATES_IN_VIEW: u64 = 10;

/// The same for files.
const FILES_IN_VIEW: usize = 4;

/// Logged once; repeats are summed later.
const WAITED: &str = "changes wait for a member that lacks too much";

impl LocalReplica {
    /// Contents of at most this many files are noted for a member of the view.
    fn files_in_view(&self) -> usize {
        let others = self.state.members.others().len().max(1) as u64;
        let files = self.state.settings.kept_memory / FILE_BYTES / others;
        usize::try_from(files)
            .unwrap_or(usize::MAX)
            .max(FILES_IN_VIEW)
    }

    /// Contents of at most this many files are noted for a replica that takes no part, beyond those of a copy that it is being sent. If it lacks
    /// more, it takes a whole copy.
    pub(crate) fn kept_files(&self) -> usize {
        self.files_in_view() / FILES_IN_VIEW
    }

    /// Approximate bytes of memory used for what the others lack.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let files = self.engine.with_core(|guard| {
            let backlogs = guard.ledger.unshipped.peers();
            backlogs.map(|(_, backlog)| backlog.files()).sum::<usize>()
        });
        files as u64 * FILE_BYTES
    }

    /// A member of the view that lacks more than is kept.
    pub(crate) fn too_slow(&self) -> Option<Lag> {
        let most_updates = self
            .state
            .settings
            .kept_updates
            .saturating_mul(UPDATES_IN_VIEW);
        let most_files = self.files_in_view();
        if !self.takes_part() {
            return None;
        }
        self.engine
            .with_core(|guard| guard.ledger.too_slow(most_updates, most_files))
    }

    /// Looks now and then for a member of the view that lacks more than is kept.
    pub(crate) fn look_for_slow(&self) {
        let found = self.too_slow();
        self.state.slow.send_if_modified(|known| {
            let changed = *known != found;
            *known = found;
            changed
        });
    }

    /// The replica for which changes wait.
    pub(crate) fn awaited(&self) -> Option<ReplicaSlot> {
        self.state.slow.borrow().map(|lag| lag.slot)
    }

    /// Returns when, by the last check, no member of the view lacks more than is kept.
    ///
    /// # Errors
    /// [`Error::Delay`] if one still does at the deadline.
    pub(crate) async fn wait_for_slow(&self, deadline: Instant) -> Result<()> {
        let Some(lag) = *self.state.slow.borrow() else {
            return Ok(());
        };
        if let Some(sum) = self.state.repeats.is_to_tell(WAITED, lag.slot) {
            let (replica, why) = (lag.slot.0, lag.reason());
            tracing::warn!(replica, why, %sum, "changes wait until a member lacks less");
        }
        let mut slow = self.state.slow.subscribe();
        let waited = tokio::time::timeout_at(deadline, slow.wait_for(Option::is_none));
        // The sender lives in here.
        waited.await.map(drop).map_err(|_elapsed| Error::Delay)
    }
}
