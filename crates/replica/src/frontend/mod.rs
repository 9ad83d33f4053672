//! Operations of clients, and those that other replicas forward.
//!
//! `door` is the replicated tree as a file system, `durability` makes answers wait for a majority where that is asked for,
//! `room` refuses what does not fit everywhere, `leavings` gives up what clients hold that never came back.
//!
//! What must never enter: how updates and contents travel, and who takes part. Modules in here import from this folder,
//! `driver` and `state`.

pub(crate) mod door;
pub(crate) mod durability;
pub(crate) mod leavings;
mod room;

pub(crate) use room::Room;
