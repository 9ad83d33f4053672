//! Why something about views could not be done.

use thiserror::Error;
use vfs::ReplicaSlot;

use crate::stable_storage::StableStorageError;
use crate::transport::TransportError;

/// Why a call of [`crate::Views`] failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ViewError {
    /// No leader is known, or it was asked and is leader no longer. Nothing was decided; try again.
    #[error("no leader is known; try again")]
    NoLeader,
    /// A majority did not answer in time. It may be decided all the same: look at the state, then try again.
    #[error("not known whether it was decided")]
    OutcomeUnknown,
    /// The leader could not be asked.
    #[error("replica {} leads and cannot be asked: {error}", .leader.0)]
    LeaderUnreachable {
        /// Who leads.
        leader: ReplicaSlot,
        /// What the transport said.
        error: TransportError,
    },
    /// A new member does not answer, so it was not configured.
    #[error("replica {} does not take in what it is sent", .0.0)]
    NewcomerUnreachable(ReplicaSlot),
    /// The storage failed.
    #[error("storage: {0}")]
    StableStorage(#[from] StableStorageError),
    /// What was stored is not what this program stores.
    #[error("the log of views is damaged: {0}")]
    Damaged(String),
    /// A request or an answer is no message of this crate.
    #[error("no such message: {0}")]
    Message(String),
    /// The settings contradict each other.
    #[error("settings: {0}")]
    Settings(String),
    /// Stopped, by request or because the storage failed.
    #[error("stopped: {0}")]
    Stopped(String),
}
