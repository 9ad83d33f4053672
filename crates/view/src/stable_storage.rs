//! Storage for the Raft log, the vote and the snapshot: the interface between views and storage.
//!
//! What must never enter: files, databases, and the meaning of keys and values.

use async_trait::async_trait;
use thiserror::Error;

/// A change of stable storage: a key, and its new value or `None` to remove it.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// A small, durable, ordered map of bytes to bytes. Only views use it.
///
/// Keys have at most 16 bytes, values at most a few MiB (the snapshot). There are at most a few hundred at a time.
#[async_trait]
pub trait StableStorage: Send + Sync + 'static {
    /// Makes all changes or none. They are stable when this returns. Writes are executed in the order of the calls.
    ///
    /// # Errors
    /// The storage failed. Views then stop at this replica; it is unknown which changes were made.
    async fn write(&self, changes: Vec<Change>) -> Result<(), StableStorageError>;

    /// The keys from `from` up to, but not including, `to`, with their values, in the order of the keys.
    ///
    /// # Errors
    /// The storage failed.
    async fn read(
        &self,
        from: &[u8],
        to: &[u8],
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StableStorageError>;
}

/// The storage failed, with its own message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct StableStorageError(pub String);
