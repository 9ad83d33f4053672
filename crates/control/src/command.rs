//! The commands of the control core to its caller. They are its only effects.

use crate::claim::Proposal;
use crate::message::Envelope;
use crate::moment::Moment;
use crate::name::ControlName;
use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

/// The caller's identifier of a client's operation that waits for control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// Counts [`Command::Persist`]. A command with mark `n` must wait until the first `n` of them are on stable storage.
/// Mark 0 waits for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u64);

/// Permission to execute an operation now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The controls that cover it; the update it makes must name them.
    pub under: Vec<ControlName>,
    /// The client may be answered when the records up to this mark are stable.
    pub after: Mark,
}

/// A change of the durable control table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// This replica acknowledges the control, either to its holder or, for its own control, to itself.
    Granted(Proposal),
    /// The control has ended. A late copy of its proposal must not be granted again.
    Ended(ControlName),
    /// A control that this replica had acknowledged is kept separately, not as granted: the replica is out of the view.
    SetAside(Proposal),
    /// A control that was set aside is no longer needed.
    Forgotten(ControlName),
}

/// The core's only output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Put a record on stable storage. Several may share one commit; their order must be kept.
    Persist(Record),
    /// Send a message to a peer, but only after the records up to `after` are stable.
    Send {
        /// The receiving replica.
        to: ReplicaSlot,
        /// The message with its epoch.
        envelope: Envelope,
        /// The records that must be stable first.
        after: Mark,
    },
    /// Execute a client's operation now, in the same turn and not later: the controls are in force until the next call
    /// of the core. Checks that were made before the operation waited must be repeated.
    Admit {
        /// The operation.
        operation: OperationId,
        /// The controls that cover it; the update it makes must name them.
        under: Vec<ControlName>,
        /// The client may be answered when the records up to this mark are stable.
        after: Mark,
    },
    /// Pass a client's operation to another replica, or tell the replica that passed it to us to do so.
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
