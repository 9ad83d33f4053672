//! Stable records of which clients hold state, so that they may reclaim it after a restart
//! (RFC 8881, section 8.4.2.1).

use std::sync::Arc;

use async_trait::async_trait;

/// A client record could not be written or removed. The text is for the log.
#[derive(Debug, thiserror::Error)]
#[error("client records: {0}")]
pub struct RecordError(pub String);

/// Where the owner strings of clients with state are kept across restarts.
#[async_trait]
pub trait ClientRecords: Send + Sync + 'static {
    /// Puts an owner on stable storage. Adding one that is there is no error.
    async fn add(&self, owner: Arc<[u8]>) -> Result<(), RecordError>;

    /// Forgets an owner. Removing one that is not there is no error.
    async fn remove(&self, owner: Arc<[u8]>) -> Result<(), RecordError>;
}
