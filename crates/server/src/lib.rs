//! The running server: the one place where sockets, disk, clock and the pure cores meet.
//!
//! [`Server`] takes a validated [`Configuration`], opens the data directory and the trees in it, and moves
//! bytes between TCP connections and the NFS service until it is told to stop. Beside that it keeps
//! the few small files a server needs across restarts, answers status questions, and counts.
//!
//! What must never enter: what an NFS operation means, how a tree is stored, command lines. Nothing
//! in here looks into a COMPOUND.

#![forbid(unsafe_code)]

mod check;
pub mod configuration;
mod data_directory;
mod metrics;
mod serve;
pub mod set;
mod status;
mod transport;

pub use check::{CheckReport, check};
pub use configuration::{Configuration, ConfigurationError, Overrides};
pub use data_directory::{DataDirectory, DataDirectoryError};
pub use serve::{ServeError, Server, StopSignals};
pub use status::{
    ControlStatus, DurabilityAnswer, DurabilityQuestion, DurabilitySetting, ExportStatus,
    ReplicaPeerStatus, ReplicationStatus, Status, StatusError, ask as ask_status, ask_durability,
};
