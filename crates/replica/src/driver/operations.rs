//! What operations of clients ask and tell replication control: which replica is primary, admission, and opens for writing.
//!
//! What must never enter: how an operation is tried again, and changes of data (`changes`).

use control::{Asker, Position, Subject, Update};
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::control::Admitted;
use crate::driver::engine::Engine;
use crate::state::ledger::PendingVerdict;

impl Engine {
    /// The other replica that is primary of an object, if one is known to be.
    pub(crate) fn foreign_primary(&self, object: ObjectId) -> Option<ReplicaSlot> {
        if !self.anything_foreign() {
            return None;
        }
        let foreign = self.with_core(|guard| guard.foreign_control(object));
        foreign.map(|name| name.holder)
    }

    /// Whether this replica is primary of an object.
    pub(crate) fn is_primary(&self, subject: Subject) -> bool {
        self.with_core(|guard| guard.controls(subject))
    }

    /// The controls that cover an update; requests them if there are none.
    pub(crate) fn admit(&self, update: &Update) -> Admitted {
        self.with_core(|guard| guard.admit(update, Asker::Own))
    }

    /// From now on a client of this server has a file open for writing.
    pub(crate) fn opened_for_writing(&self, file: ObjectId) {
        self.with_core(|guard| guard.opened_for_writing(file));
    }

    /// No client of this server has it open for writing any more.
    pub(crate) fn closed_for_writing(&self, file: ObjectId) {
        self.with_core(|guard| guard.closed_for_writing(file));
    }

    /// Makes the changes of a file that were made here visible at every replica, for clients that open it next (rule 19). Returns the verdict to wait
    /// for; `None` if too much waits already.
    pub(crate) fn close(&self, file: ObjectId) -> Option<PendingVerdict> {
        self.with_core(|guard| {
            let entry = guard.ledger.births.of(file).map(Position);
            guard.close(file, entry)
        })
    }
}
