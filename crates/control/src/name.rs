//! Unique names for every control and every message of the protocol.
//!
//! Answers are matched only by these names: an acknowledgement that arrives after its proposal was withdrawn must never
//! count for the next proposal of the same object. Nothing in here makes decisions.

use serde::{Deserialize, Serialize};
use std::fmt;
use vfs::ReplicaSlot;

/// The number of starts of a replica. A durable counter supplies it before the first message is sent, so that the
/// numbers of [`ControlName`] may start again with each incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// The number of a view. It only grows; a majority of all configured replicas agreed on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// The position of an update in the stream of the primary that made it; 0 is before the first update.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Position(pub u64);

/// Names one control, from its proposal to its end. Never used twice.
///
/// A proposal for several objects (a group) has one name, because it is granted and ended as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ControlName {
    /// The replica that proposes, holds or held the control.
    pub holder: ReplicaSlot,
    /// The incarnation of the holder that proposed it.
    pub incarnation: Incarnation,
    /// Counts the proposals of this incarnation.
    pub number: u64,
}

impl fmt::Display for ControlName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            self.holder.0, self.incarnation.0, self.number
        )
    }
}

impl fmt::Debug for ControlName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
