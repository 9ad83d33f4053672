//! The running server: the one place where sockets, disk, clock and the pure cores meet.
//!
//! [`Server`] takes a validated [`Configuration`], opens the data directory and its trees, and moves bytes between TCP
//! connections and the NFS service until it is stopped. It also keeps the few small files that a server needs across
//! restarts, answers status questions, and counts.
//!
//! What must never enter: the meaning of an NFS operation, how a tree is stored, command lines. This crate never looks
//! into a COMPOUND.

#![forbid(unsafe_code)]

mod check;
pub mod configuration;
mod data_directory;
mod health;
mod metrics;
mod page;
mod plain;
pub mod pools;
pub mod recovered;
mod serve;
pub mod set;
mod short_connections;
mod starting;
mod status;
mod transport;

/// Decodes arbitrary bytes as every kind of input for fuzzing: files of a data directory, what a joining server receives, messages between servers of a pool,
/// questions over the control socket, and answers to callbacks. The result is discarded.
#[doc(hidden)]
pub fn decode_as_anything(bytes: &[u8]) {
    data_directory::decode_as_anything(bytes);
    pools::decode_as_anything(bytes);
    serve::decode_as_anything(bytes);
    set::decode_as_anything(bytes);
    status::decode_as_anything(bytes);
    transport::decode_as_anything(bytes);
}

pub use check::{CheckReport, Repair, check};
pub use configuration::{Configuration, ConfigurationError, ListenAddress, Overrides};
pub use data_directory::{DataDirectory, DataDirectoryError};
pub use plain::plain;
pub use serve::{Build, Ending, Origin, Reread, ServeError, Server, Signals};
pub use starting::Commands;
pub use status::{
    Alarm, AuditEntry, ClientStatus, ClockDifference, ControlView, CopiesStatus, DrainAnswer,
    DrainDataAnswer, DrainDataQuestion, DrainQuestion, DurabilityAnswer, DurabilityQuestion,
    DurabilitySetting, EvictQuestion, ExportStatus, FindingView, ForgetAnswer, ForgetQuestion,
    FrozenText, FrozenView, GivingUpStatus, Holding, HoldingText, JunctionAnswer, JunctionView,
    JunctionsStatus, LinkView, LossView, MemberNames, MemberView, MovingStatus, PartStatus,
    PeerView, PoolServerStatus, PoolStatus, RebalanceAnswer, RebalanceQuestion, Referral,
    RejoinView, ReplicaStatus, Rows, ScrubQuestion, ScrubText, ScrubView, ShortView, Status,
    StatusError, ThawAnswer, ThawQuestion, ViewStatus, ViewText, Whereabouts, ask as ask_status,
    ask_clients, ask_drain, ask_drain_data, ask_durability, ask_evict, ask_forget_data_server,
    ask_frozen, ask_junction, ask_junctions, ask_move_authority, ask_readmit_data_server,
    ask_rebalance, ask_reload, ask_remove_data_server, ask_scrub, ask_thaw, ask_view, ask_where,
    moment, size,
};
pub use transport::{ListenError, try_to_listen};
pub use vfs::{Counted, ShownBytes, ShownText, is_visible};
