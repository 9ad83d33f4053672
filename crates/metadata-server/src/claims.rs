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
    /// What begins with a run of the home, of which these servers know nothing yet. What clients of some of them held was given up before.
    pub(crate) fn new(
        now: LeaseClock,
        until: Moment,
        expected: impl IntoIterator<Item = ReplicaSlot>,
        given_up: &BTreeSet<ReplicaSlot>,
    ) -> Claims {
        let (late, expected) = expected
            .into_iter()
            .partition(|server| given_up.contains(server));
        Claims {
            now,
            until,
            state: Mutex::new(State { expected, late }),
            is_over_here: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Servers whose time is over. They are waited for until [`Claims::give_up`].
    pub(crate) fn overdue(&self) -> BTreeSet<ReplicaSlot> {
        match (self.now)() >= self.until {
            true => self.state().expected.clone(),
            false => BTreeSet::new(),
        }
    }

    /// A server is not waited for any more. Whether it was until now.
    pub(crate) fn give_up(&self, server: ReplicaSlot) -> bool {
        let mut state = self.state();
        let was_expected = state.expected.remove(&server);
        if was_expected {
            state.late.insert(server);
            tracing::warn!(
                number = server.0,
                "a metadata server has not told in time what its clients had open and locked: that is given up"
            );
        }
        was_expected
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
