//! How far a member of the view lags behind that lacks too much.
//!
//! What must never enter: how much is too much.

use vfs::{Counted, ReplicaSlot};

use crate::state::ledger::Ledger;
use crate::state::shipping::Backlog;

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

impl Ledger {
    /// A member of the view that lacks more than these numbers of updates, or of files.
    pub(crate) fn too_slow(&self, most_updates: u64, most_files: usize) -> Option<Lag> {
        let mut others = self.active.iter().filter(|slot| **slot != self.slot);
        others.find_map(|slot| {
            // What earlier incarnations made does not count: positions that they had reserved look like updates, and a member that has not
            // reported since this replica started lacks an unknown number.
            let applied = self.applied.get(slot).map(|at| *at.max(&self.began_at));
            let lag = Lag {
                slot: *slot,
                updates: applied.map_or(0, |at| self.last_position.saturating_sub(at)),
                files: self.unshipped.backlog(*slot).map_or(0, Backlog::files),
                untold: self.untold(*slot, most_files),
            };
            let is_slow =
                lag.updates > most_updates || lag.files > most_files || lag.untold > most_files;
            is_slow.then_some(lag)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::shipping::{Settings, Unshipped};

    /// A restart skips the positions that were reserved and not used. A member that had everything was left out as too slow.
    #[test]
    fn positions_that_a_restart_skips_make_no_member_slow() {
        let (own, other) = (ReplicaSlot(1), ReplicaSlot(2));
        let mut unshipped = Unshipped::new(Settings::default());
        unshipped.add_peer(other);
        let mut ledger = Ledger::new(own, unshipped);
        ledger.active = [own, other].into();
        ledger.applied.insert(other, 7);
        (ledger.began_at, ledger.last_position) = (70_000, 70_000);
        assert_eq!(ledger.too_slow(100, 100), None);
        ledger.last_position = 70_100;
        assert_eq!(ledger.too_slow(100, 100), None);
        ledger.last_position = 70_101;
        assert_eq!(ledger.too_slow(100, 100).map(|lag| lag.updates), Some(101));
    }
}
