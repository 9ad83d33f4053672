//! The questions and reports of this layer to replication control, by name. Nothing else calls the core; `engine` takes its commands.
//!
//! What must never enter: what follows from the answers.

use std::collections::BTreeSet;

use control::{
    Admission, Asker, ControlName, Envelope, Epoch, Incarnation, Overlay, Position, Proposal,
    Subject, Update, View,
};
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::engine::Guard;
use crate::state::ledger::PendingVerdict;

/// Questions.
impl Guard<'_> {
    /// The control of another replica that covers an object.
    pub(super) fn foreign_control(&self, object: ObjectId) -> Option<ControlName> {
        self.core.foreign_control(&self.tree, object)
    }

    /// Whether this replica controls an object.
    pub(super) fn controls(&self, subject: Subject) -> bool {
        self.core.controls(&self.tree, subject)
    }

    /// Whether another replica waits for the end of a control of this replica that covers an object.
    pub(super) fn is_awaited(&self, object: ObjectId) -> bool {
        self.core.is_awaited(&self.tree, object)
    }

    /// The controls of this replica, with what they cover.
    pub(super) fn own_controls(&self) -> impl Iterator<Item = (ControlName, &Proposal)> {
        self.core.own_controls()
    }

    /// All controls that are acknowledged here.
    pub(super) fn acknowledged(&self) -> impl Iterator<Item = &Proposal> {
        self.core.acknowledged()
    }

    /// Controls of replicas that take no part.
    pub(super) fn frozen(&self) -> impl Iterator<Item = &Proposal> {
        self.core.frozen()
    }

    /// Why a control of this replica has not ended, for display.
    pub(super) fn held_because(&self, name: ControlName) -> Option<&'static str> {
        self.core.held_because(&self.tree, name)
    }

    /// Whether every member of the view has reported what it acknowledged before.
    pub(super) fn is_settled(&self) -> bool {
        self.core.is_settled()
    }

    /// Whether all replicas know every control here.
    pub(super) fn is_steady(&self) -> bool {
        self.core.is_steady()
    }

    /// The view that the core uses.
    pub(super) fn epoch(&self) -> Epoch {
        self.core.epoch()
    }

    /// Whether an update made under these controls may be applied.
    pub(super) fn may_apply(&self, under: &[ControlName]) -> bool {
        self.core.may_apply(under)
    }
}

/// Before the replica stops.
impl Guard<'_> {
    /// Gives up every control of this replica as soon as it may end.
    pub(super) fn retire(&mut self) {
        self.core.handle_retiring(self.now, &self.tree);
    }

    /// Whether none is left, as far as these peers know.
    pub(super) fn has_retired(&self, peers: &BTreeSet<ReplicaSlot>) -> bool {
        self.core.has_retired(peers)
    }
}

/// The result of admitting an operation of this replica.
pub(crate) enum Admitted {
    /// A control of this replica covers it.
    Now(Admission),
    /// No control covers it yet; it was submitted.
    Later(PendingVerdict),
    /// Too much waits already.
    Never,
}

/// Operations of this replica.
impl Guard<'_> {
    /// The controls that cover an update; requests them if there are none.
    pub(super) fn admit(&mut self, update: &Update, asker: Asker) -> Admitted {
        let asked = (update, asker);
        if let Some(admission) = self.core.try_admit(self.now, &self.tree, asked) {
            return Admitted::Now(admission);
        }
        let (operation, verdict) = self.ledger.begin_operation();
        let (now, tree) = (self.now, &self.tree);
        match self.core.handle_operation(now, tree, operation, asked) {
            Ok(()) => Admitted::Later(verdict),
            Err(control::Overloaded) => {
                self.ledger.abandon(operation);
                Admitted::Never
            }
        }
    }

    /// Makes a change of a file that was made here visible at every replica, for clients that open it next; `entry` is where its directory entry was
    /// made. Returns the verdict to wait for; `None` if too much waits already.
    pub(super) fn close(
        &mut self,
        file: ObjectId,
        entry: Option<Position>,
    ) -> Option<PendingVerdict> {
        let (operation, verdict) = self.ledger.begin_operation();
        let (now, tree) = (self.now, &self.tree);
        match self.core.handle_close(now, tree, operation, file, entry) {
            Ok(()) => Some(verdict),
            Err(control::Overloaded) => {
                self.ledger.abandon(operation);
                None
            }
        }
    }

    /// Keeps controls from ending until they are released.
    pub(super) fn hold(&mut self, under: &[ControlName]) {
        self.core.hold(under);
    }

    /// The holder of these controls is done.
    pub(super) fn let_go(&mut self, under: &[ControlName]) {
        self.core.handle_let_go(self.now, &self.tree, under);
    }

    /// An object is being made below a directory. Returns the control that it inherits, if any.
    pub(super) fn created(
        &mut self,
        object: ObjectId,
        made: Subject,
        parent: ObjectId,
    ) -> Option<Proposal> {
        let tree = Overlay::new(&self.tree, object, Some(parent));
        self.core.handle_created(self.now, &tree, made, parent)
    }

    /// An update was made here.
    pub(super) fn updated(&mut self, update: &Update, under: &[ControlName], at: Position) {
        self.core.handle_update(&self.tree, update, under, at);
    }

    /// Data of a file was changed that others lack.
    pub(super) fn data_unshipped(&mut self, file: ObjectId, under: &[ControlName]) {
        self.core.handle_data_unshipped(file, under);
    }

    /// All replicas that take part have all content of a file.
    pub(super) fn data_shipped(&mut self, file: ObjectId) {
        self.core.handle_data_shipped(self.now, &self.tree, file);
    }

    /// From now on a client here has a file open for writing.
    pub(super) fn opened_for_writing(&mut self, file: ObjectId) {
        self.core.handle_opened_for_writing(file);
    }

    /// No client here has it open for writing any more.
    pub(super) fn closed_for_writing(&mut self, file: ObjectId) {
        self.core
            .handle_closed_for_writing(self.now, &self.tree, file);
    }

    /// What earlier incarnations of this replica made is everywhere, or no longer needed.
    pub(super) fn previous_settled(&mut self) {
        self.core.handle_previous_settled(self.now, &self.tree);
    }

    /// Whether the controls of earlier incarnations have ended.
    pub(super) fn has_renounced(&self) -> bool {
        self.core.has_renounced()
    }

    /// Restores a control that an earlier incarnation acknowledged.
    pub(super) fn restore(&mut self, grant: Proposal) {
        self.core.restore(&self.tree, grant);
    }

    /// The same for a control that was set aside.
    pub(super) fn restore_set_aside(&mut self, grant: Proposal) {
        self.core.restore_set_aside(grant);
    }
}

/// Events from other replicas, and of time.
impl Guard<'_> {
    /// The moment has come at which the core asked to be woken.
    pub(super) fn timer(&mut self) {
        self.core.handle_timer(self.now, &self.tree);
    }

    /// A message of another replica's core.
    pub(super) fn message(&mut self, from: ReplicaSlot, envelope: Envelope) {
        self.core
            .handle_message(self.now, &self.tree, from, envelope);
    }

    /// A peer may not have got what was said to it.
    pub(super) fn connected(&mut self, peer: ReplicaSlot) {
        self.core.handle_connected(self.now, &self.tree, peer);
    }

    /// A peer has applied this replica's stream up to a place, stably.
    pub(super) fn applied_by(&mut self, peer: ReplicaSlot, through: Position) {
        self.core
            .handle_applied(self.now, &self.tree, peer, through);
    }

    /// An object that a peer made has inherited the peer's control.
    pub(super) fn inherited(&mut self, from: ReplicaSlot, control: Proposal) {
        self.core
            .handle_inherited(self.now, &self.tree, from, control);
    }

    /// A peer's update waits for these controls to be granted here.
    pub(super) fn update_waiting(&mut self, under: &[ControlName]) {
        self.core.handle_update_waiting(self.now, &self.tree, under);
    }

    /// A link between two objects was added or removed, here or by the update of another primary.
    pub(super) fn link(&mut self, object: ObjectId, parent: ObjectId, added: bool) {
        self.tree.parents.forget(object);
        if added {
            self.core
                .handle_linked(self.now, &self.tree, object, parent);
        } else {
            self.core
                .handle_unlinked(self.now, &self.tree, object, parent);
        }
    }

    /// Another copy has replaced the local one.
    pub(super) fn tree_replaced(&mut self) {
        self.core.handle_tree_replaced(self.now, &self.tree);
    }

    /// Another view is in force.
    pub(super) fn view_changed(&mut self, view: View) {
        self.core.handle_view(self.now, &self.tree, view);
    }

    /// All controls end that a lost replica had before this incarnation.
    pub(super) fn loss_settled(&mut self, lost: ReplicaSlot, below: Incarnation) {
        self.core
            .handle_loss_settled(self.now, &self.tree, lost, None, below);
    }
}
