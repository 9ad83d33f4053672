//! Who carries bytes to another replica: the seam between views and connections.
//!
//! What must never enter: sockets, addresses, certificates, and what the bytes mean.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;
use vfs::ReplicaSlot;

/// No request and no answer of this crate is longer, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 48 * 1024;

/// Carries a request to another replica and brings its answer.
///
/// There, the request is given to [`crate::Views::answer`]. Requests may be lost, late or repeated. One that
/// waits for a hung replica must not hold up those to other replicas.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Asks the replica in slot `to`. Returns after `limit` at the latest.
    ///
    /// # Errors
    /// No answer came; the request may have been carried out all the same.
    async fn ask(
        &self,
        to: ReplicaSlot,
        request: Bytes,
        limit: Duration,
    ) -> Result<Bytes, TransportError>;
}

/// Why no answer came.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransportError {
    /// There is no connection to that replica; it was not asked.
    #[error("the replica cannot be reached")]
    Unreachable,
    /// No answer within the limit.
    #[error("the replica did not answer in time")]
    TimedOut,
    /// The other side refused to answer, or the connection broke meanwhile.
    #[error("the request failed: {0}")]
    Failed(String),
}
