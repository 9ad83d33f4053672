//! Replication control: which replica is primary for which part of the tree.
//!
//! The protocol of *Hierarchical Replication Control in a Global File System* (Zhang and Honeyman) as a pure core:
//! [`ControlCore`] takes messages, operations and the time as arguments and returns [`Command`]s. It does no input or
//! output, reads no clock, starts no thread and has no unbounded queue, so that the same code runs in production and in
//! simulation.
//!
//! What must never enter: sockets, disks, clocks, NFS, the contents of files, and how views are agreed.
//! The messages are listed in `docs/protocol.md`.

#![forbid(unsafe_code)]

mod acceptor;
mod ancestry;
mod claim;
mod clock_difference;
mod clocks;
mod command;
mod core;
mod election;
mod ended;
mod lease;
mod message;
mod moment;
mod name;
mod own;
mod placed;
mod rules;
mod settings;
mod table;
mod tree;
mod update;
mod view;
mod waiting;

pub use claim::{Claim, Depth, Obstacle, Proposal, Rank};
pub use clock_difference::{ClockDifference, ClockDifferences};
pub use clocks::{ClockReading, ClockSight, readings, steady};
pub use command::{Admission, Command, Mark, OperationId, Record};
pub use core::{ControlCore, Overloaded, Sizes};
pub use lease::{DRIFT_PPM, LeaseSettings, Question, SiteLease, drift};
pub use message::{Envelope, MAX_OBSTACLES, Message, Told};
pub use moment::Moment;
pub use name::{ControlName, Epoch, Incarnation, Position};
pub use rules::Rules;
pub use settings::{Contention, Settings, Strategies};
pub use tree::{Overlay, Tree, ancestors};
pub use update::{Asker, Subject, Update};
pub use vfs::ReplicaSlot;
pub use view::View;
