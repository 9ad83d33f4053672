//! How much a core remembers, for callers that watch that it stays bounded (rule 29).

use super::ControlCore;

/// How many entries there are of everything that a core remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Own controls, whatever their state, and operations and closes that wait.
    pub own: usize,
    /// Own controls that have ended, and whose end somebody has not noted yet.
    pub endings: usize,
    /// Controls that are acknowledged here, own ones included, or were before this replica left the view.
    pub grants: usize,
    /// Counters in the ancestry table.
    pub ancestry: usize,
    /// Proposals that wait here to be granted.
    pub waiting: usize,
    /// Floors and runs of numbers of controls that have ended.
    pub ended: usize,
    /// Files whose contents somebody lacks, and under which controls each was written.
    pub contents: usize,
    /// Alarms, and directories where no deep control is proposed for a while.
    pub timers: usize,
    /// Replicas of which something is known: how far they are, and what they have reported.
    pub peers: usize,
}

impl Sizes {
    /// The larger one of each.
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
    /// How much is remembered now.
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
