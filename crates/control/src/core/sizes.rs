//! The memory use of a core, for callers that check that it stays bounded (rule 29).

use super::ControlCore;

/// The number of entries of each kind in a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Own controls in any state, and waiting operations and closes.
    pub own: usize,
    /// Own controls that have ended, and whose end some replica has not noted yet.
    pub endings: usize,
    /// Controls that are acknowledged here, own ones included, or that were before this replica left the view.
    pub grants: usize,
    /// Counters in the ancestry table.
    pub ancestry: usize,
    /// Proposals that wait here to be granted.
    pub waiting: usize,
    /// Floors and runs of numbers of controls that have ended.
    pub ended: usize,
    /// Files whose contents some replica lacks, with the controls that each was written under.
    pub contents: usize,
    /// Alarms, and directories in back-off from deep control.
    pub timers: usize,
    /// Replicas with recorded progress or reports.
    pub peers: usize,
}

impl Sizes {
    /// The maximum of each field.
    #[must_use]
    pub fn max(self, other: Sizes) -> Sizes {
        Sizes {
            own: self.own.max(other.own),
            endings: self.endings.max(other.endings),
            grants: self.grants.max(other.grants),
            ancestry: self.ancestry.max(other.ancestry),
            waiting: self.waiting.max(other.waiting),
            ended: self.ended.max(other.ended),
            contents: self.contents.max(other.contents),
            timers: self.timers.max(other.timers),
            peers: self.peers.max(other.peers),
        }
    }
}

impl ControlCore {
    /// The current sizes.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let table = self.acceptor.table();
        Sizes {
            own: self.own.len() + self.own.waiting_count() + self.closes.len(),
            endings: self.endings.len(),
            grants: table.grants().count() + self.set_aside.len(),
            ancestry: table.ancestry().len(),
            waiting: self.acceptor.waiting().count(),
            ended: self.acceptor.ended_len(),
            contents: self.contents.len(),
            timers: self.deadlines.len() + self.back_off.len(),
            peers: self.applied.len() + self.ahead_of_us.len() + self.reports.len(),
        }
    }
}
