//! Errors of operations on views.

use thiserror::Error;
use vfs::ReplicaSlot;

use crate::stable_storage::StableStorageError;
use crate::transport::TransportError;

/// Why a call of [`crate::Views`] failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ViewError {
    /// No leader is known, or the replica that was asked does not lead any more. Nothing was decided; try again.
    #[error("no leader is known; try again")]
    NoLeader,
    /// No majority answered in time. The decision may still be made: look at the state, then try again.
    #[error("not known whether it was decided")]
    OutcomeUnknown,
    /// The leader could not be reached.
    #[error("replica {} leads and cannot be asked: {error}", .leader.0)]
    LeaderUnreachable {
        /// The leader.
        leader: ReplicaSlot,
        /// The error of the transport.
        error: TransportError,
    },
    /// The new member does not answer, so it was not configured.
    #[error("replica {} does not take in what it is sent", .0.0)]
    NewcomerUnreachable(ReplicaSlot),
    /// The storage failed.
    #[error("storage: {0}")]
    StableStorage(#[from] StableStorageError),
    /// The stored data is invalid.
    #[error("the log of views is damaged: {0}")]
    Damaged(String),
    /// A request or an answer is not a message of this crate.
    #[error("no such message: {0}")]
    Message(String),
    /// The settings contradict each other.
    #[error("settings: {0}")]
    Settings(String),
    /// This member stopped, by request or because the storage failed.
    #[error("stopped: {0}")]
    Stopped(String),
}
