//! Who held something before the home's start, and has not told it yet ([`homes::holdings::Claims`]), for many who ask at once.
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

    /// Servers whose time is over. They are waited for until [`Claims::give_up`].
    pub(crate) fn overdue(&self) -> BTreeSet<ReplicaSlot> {
        self.claims().overdue((self.now)())
    }

    /// A server is not waited for any more. Whether it was until now.
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

    /// A server has told all that it has, or has left the pool.
    pub(crate) fn has_told(&self, server: ReplicaSlot) {
        self.claims().has_told(server);
    }

    /// Whether a server may have what is not known here.
    pub(crate) fn expects(&self, server: ReplicaSlot) -> bool {
        self.claims().expects(server)
    }

    /// Whether a server comes too late; asked once.
    pub(crate) fn take_late(&self, server: ReplicaSlot) -> bool {
        self.claims().take_late(server)
    }

    /// Whether any other server may.
    pub(crate) fn are_open(&self) -> bool {
        self.claims().are_open((self.now)())
    }

    /// Whether clients of other servers may get something new.
    pub(crate) fn are_over(&self) -> bool {
        self.claims().are_over((self.now)())
    }

    pub(crate) fn end_here(&self) {
        self.claims().end_here();
    }
}
