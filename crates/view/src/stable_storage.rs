//! Where the Raft log, the vote and the snapshot lie: the seam between views and storage.
//!
//! What must never enter: files, databases, and what keys and values mean.

use async_trait::async_trait;
use thiserror::Error;

/// A change of stable storage: a key, and its new value or nothing.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// Durable facts: a small ordered map of bytes to bytes, all of it for views alone.
///
/// Keys are at most 16 bytes, values at most a few MiB (the snapshot), a few hundred at a time.
#[async_trait]
pub trait StableStorage: Send + Sync + 'static {
    /// Makes all changes or none. When this returns they are stable. Writes are carried out in the order of
    /// their calls.
    ///
    /// # Errors
    /// The storage failed. Views stop at this replica then; what was changed is unknown.
    async fn write(&self, changes: Vec<Change>) -> Result<(), StableStorageError>;

    /// The keys from `from` to before `to` with their values, in the order of the keys.
    ///
    /// # Errors
    /// The storage failed.
    async fn read(
        &self,
        from: &[u8],
        to: &[u8],
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StableStorageError>;
}

/// The storage failed, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct StableStorageError(pub String);
