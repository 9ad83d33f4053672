//! What the control core asks its caller to do. Nothing happens in any other way.

use crate::claim::Proposal;
use crate::message::Envelope;
use crate::moment::Moment;
use crate::name::ControlName;
use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

/// The caller's name for a client's operation that waits for control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// Counts [`Command::Persist`]; a command that carries mark `n` must wait until the first `n` of them
/// are on stable storage. Mark 0 waits for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u64);

/// Leave to carry out an operation now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The controls that cover it; the update it makes must name them.
    pub under: Vec<ControlName>,
    /// The client may be answered when the records up to here are stable.
    pub after: Mark,
}

/// A change of the durable control table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// This replica acknowledges the control, to its holder or, for its own, to itself.
    Granted(Proposal),
    /// The control has ended and must not be granted again by a late copy of its proposal.
    Ended(ControlName),
    /// What this replica had acknowledged is kept apart, not as granted: it is out of the view.
    SetAside(Proposal),
    /// What was kept apart is no longer needed.
    Forgotten(ControlName),
}

/// The core's only output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Put a record on stable storage. Several may share one commit; their order must be kept.
    Persist(Record),
    /// Send a message to a peer, not before the records up to `after` are stable.
    Send {
        /// The receiving replica.
        to: ReplicaSlot,
        /// The message with its epoch.
        envelope: Envelope,
        /// What must be durable first.
        after: Mark,
    },
    /// Carry out a client's operation now, in the same turn, not later: the controls are in force until
    /// the core is next called. Checks made before the operation waited have to be repeated.
    Admit {
        /// The operation.
        operation: OperationId,
        /// The controls that cover it; the update it makes must name them.
        under: Vec<ControlName>,
        /// The client may be answered when the records up to here are stable.
        after: Mark,
    },
    /// Hand a client's operation to another replica, or tell the replica that handed it to us to do so.
    ForwardTo {
        /// The operation.
        operation: OperationId,
        /// The replica that controls, or is about to control, the object.
        holder: ReplicaSlot,
    },
    /// Call [`crate::ControlCore::handle_timer`] at this moment. Replaces any earlier alarm.
    ArmTimer {
        /// When to call.
        at: Moment,
    },
}
