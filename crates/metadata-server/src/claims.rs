//! Who held something before the home's start, and has not told it yet.
//!
//! Until everybody has, or the lease of a client has passed, nobody is given what somebody else may have (rule 16). A client that comes later
//! has lost it.
//!
//! What must never enter: what is told.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use control::Moment;
use pool::LeaseClock;
use vfs::ReplicaSlot;

pub(crate) struct Claims {
    now: LeaseClock,
    until: Moment,
    state: Mutex<State>,
    /// Clients of the home itself have nothing to reclaim any more.
    is_over_here: AtomicBool,
}

struct State {
    expected: BTreeSet<ReplicaSlot>,
    late: BTreeSet<ReplicaSlot>,
}

impl Claims {
    /// What begins with a run of the home, of which these servers know nothing yet.
    pub(crate) fn new(
        now: LeaseClock,
        until: Moment,
        expected: impl IntoIterator<Item = ReplicaSlot>,
    ) -> Claims {
        Claims {
            now,
            until,
            state: Mutex::new(State {
                expected: expected.into_iter().collect(),
                late: BTreeSet::new(),
            }),
            is_over_here: AtomicBool::new(false),
        }
    }

    /// Looks at the time first.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.expected.is_empty() && (self.now)() >= self.until {
            let late = std::mem::take(&mut state.expected);
            tracing::warn!(
                servers = late.len(),
                "metadata servers have not told in time what their clients had open and locked: that is given up"
            );
            state.late = late;
        }
        state
    }

    /// A server has told all that it has, or has left the pool.
    pub(crate) fn has_told(&self, server: ReplicaSlot) {
        let mut state = self.state();
        state.expected.remove(&server);
        state.late.remove(&server);
    }

    /// Whether a server may have what is not known here.
    pub(crate) fn expects(&self, server: ReplicaSlot) -> bool {
        self.state().expected.contains(&server)
    }

    /// Whether a server comes too late; asked once.
    pub(crate) fn take_late(&self, server: ReplicaSlot) -> bool {
        self.state().late.remove(&server)
    }

    /// Whether any other server may.
    pub(crate) fn are_open(&self) -> bool {
        !self.state().expected.is_empty()
    }

    /// Whether clients of other servers may get something new.
    pub(crate) fn are_over(&self) -> bool {
        self.is_over_here.load(Ordering::Acquire) && !self.are_open()
    }

    pub(crate) fn end_here(&self) {
        self.is_over_here.store(true, Ordering::Release);
    }
}
