//! Which servers held state before the home's start and have not reported it yet ([`homes::holdings::Claims`]), shared between tasks.
//!
//! What must never enter: what follows from it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use control::Moment;
use pool::LeaseClock;
use vfs::ReplicaSlot;

pub(crate) struct Claims {
    now: LeaseClock,
    claims: Mutex<homes::holdings::Claims>,
}

impl Claims {
    /// See [`homes::holdings::Claims::new`].
    pub(crate) fn new(
        now: LeaseClock,
        moments: (Moment, Moment),
        servers: impl IntoIterator<Item = ReplicaSlot>,
        given_up: &BTreeSet<ReplicaSlot>,
    ) -> Claims {
        let claims = homes::holdings::Claims::new(moments, servers, given_up);
        Claims {
            now,
            claims: Mutex::new(claims),
        }
    }

    fn claims(&self) -> MutexGuard<'_, homes::holdings::Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Servers whose time is over. The home still waits for them until [`Claims::give_up`].
    pub(crate) fn overdue(&self) -> BTreeSet<ReplicaSlot> {
        self.claims().overdue((self.now)())
    }

    /// Stops waiting for a server. Returns whether the home waited until now.
    pub(crate) fn give_up(&self, server: ReplicaSlot) -> bool {
        let was_expected = self.claims().give_up(server);
        if was_expected {
            tracing::warn!(
                number = server.0,
                "a metadata server has not told in time what its clients had open and locked: that is given up"
            );
        }
        was_expected
    }

    /// A server has reported all its state, or has left the pool.
    pub(crate) fn has_told(&self, server: ReplicaSlot) {
        self.claims().has_told(server);
    }

    /// Whether a server may have unreported state.
    pub(crate) fn expects(&self, server: ReplicaSlot) -> bool {
        self.claims().expects(server)
    }

    /// Whether a server comes too late. True once.
    pub(crate) fn take_late(&self, server: ReplicaSlot) -> bool {
        self.claims().take_late(server)
    }

    /// Whether any other server may have unreported state.
    pub(crate) fn are_open(&self) -> bool {
        self.claims().are_open((self.now)())
    }

    /// Whether clients of other servers may get new state.
    pub(crate) fn are_over(&self) -> bool {
        self.claims().are_over((self.now)())
    }

    pub(crate) fn end_here(&self) {
        self.claims().end_here();
    }
}
