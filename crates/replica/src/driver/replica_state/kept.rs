//! How much is kept in memory for the other members, and who of the view lacks more.
//!
//! A member that lacks more leaves the view. Where too few would be left without it, it stays, and
//! changes wait until it lacks less: nothing that a member does not take is remembered without
//! bound, whatever else it answers.
//!
//! What must never enter: what is done about it.

use tokio::time::Instant;
use vfs::{Counted, Error, ReplicaSlot, Result};

use super::ReplicaState;
use crate::state::shipping::Backlog;

/// What a file costs in memory, in bytes, as long as somebody lacks contents of it: its ranges, its places in lists, and the control
/// that stands meanwhile.
const FILE_BYTES: u64 = 1024;

/// For a member of the view, this many times as many updates are kept as for those who take no
/// part.
const UPDATES_IN_VIEW: u64 = 10;

/// The same of files.
const FILES_IN_VIEW: usize = 4;

/// What is told of once, with sums later.
const WAITED: &str = "changes wait for a member that lacks too much";

/// What a member of the view lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lag {
    pub(crate) slot: ReplicaSlot,
    updates: u64,
    files: usize,
    /// Files that it has and has not noted that it has.
    untold: usize,
}

impl Lag {
    /// Why it leaves the view, for people.
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

impl ReplicaState {
    /// Contents of more files are noted for no member of the view.
    fn files_in_view(&self) -> usize {
        let others = self.others().len().max(1) as u64;
        let files = self.settings.kept_memory / FILE_BYTES / others;
        usize::try_from(files)
            .unwrap_or(usize::MAX)
            .max(FILES_IN_VIEW)
    }

    /// Contents of more files are noted for nobody who takes no part, beyond those of a copy that it is being sent: it takes
    /// a whole copy.
    pub(crate) fn kept_files(&self) -> usize {
        self.files_in_view() / FILES_IN_VIEW
    }

    /// Bytes of memory that are in use for what the others lack, about.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let files = self.engine.with_core(|guard| {
            let backlogs = guard.ledger.unshipped.peers();
            backlogs.map(|(_, backlog)| backlog.files()).sum::<usize>()
        });
        files as u64 * FILE_BYTES
    }

    /// A member of the view that lacks more than is kept for anybody.
    pub(crate) fn too_slow(&self) -> Option<Lag> {
        let most_updates = self.settings.kept_updates.saturating_mul(UPDATES_IN_VIEW);
        let (most_files, own) = (self.files_in_view(), self.slot());
        if !self.takes_part() {
            return None;
        }
        self.engine.with_core(|guard| {
            let ledger = &guard.ledger;
            let mut others = ledger.active.iter().filter(|slot| **slot != own);
            others.find_map(|slot| {
                // Of one that has not said so since this replica started nobody knows.
                let applied = ledger.applied.get(slot).copied();
                let lag = Lag {
                    slot: *slot,
                    updates: applied.map_or(0, |at| ledger.last_position.saturating_sub(at)),
                    files: ledger.unshipped.backlog(*slot).map_or(0, Backlog::files),
                    untold: ledger.untold(*slot, most_files),
                };
                let is_slow =
                    lag.updates > most_updates || lag.files > most_files || lag.untold > most_files;
                is_slow.then_some(lag)
            })
        })
    }

    /// Looks now and then for a member of the view that lacks more than is kept.
    pub(crate) fn look_for_slow(&self) {
        let found = self.too_slow();
        self.slow.send_if_modified(|known| {
            let changed = *known != found;
            *known = found;
            changed
        });
    }

    /// For whom changes wait.
    pub(crate) fn awaited(&self) -> Option<ReplicaSlot> {
        self.slow.borrow().map(|lag| lag.slot)
    }

    /// Returns when no member of the view lacked more than is kept when that was looked at last.
    ///
    /// # Errors
    /// [`Error::Delay`] when one does until the deadline.
    pub(crate) async fn wait_for_slow(&self, deadline: Instant) -> Result<()> {
        let Some(lag) = *self.slow.borrow() else {
            return Ok(());
        };
        if let Some(sum) = self.is_to_tell(WAITED, lag.slot) {
            let (replica, why) = (lag.slot.0, lag.reason());
            tracing::warn!(replica, why, %sum, "changes wait until a member lacks less");
        }
        let mut slow = self.slow.subscribe();
        let waited = tokio::time::timeout_at(deadline, slow.wait_for(Option::is_none));
        // The sender lives in here.
        waited.await.map(drop).map_err(|_elapsed| Error::Delay)
    }
}
