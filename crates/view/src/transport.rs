//! Carries bytes to another replica: the interface between views and connections.
//!
//! What must never enter: sockets, addresses, certificates, and the meaning of the bytes.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;
use vfs::ReplicaSlot;

/// The maximum size of a request or an answer of this crate, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 48 * 1024;

/// Carries a request to another replica and returns its answer.
///
/// The other replica gives the request to [`crate::Views::answer`]. Requests may be lost, late or repeated. A request
/// that waits for a hung replica must not delay requests to other replicas.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends a request to the replica in slot `to`. Returns after `limit` at the latest.
    ///
    /// # Errors
    /// No answer came. The request may still have been executed.
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
    /// There is no connection to that replica; the request was not sent.
    #[error("the replica cannot be reached")]
    Unreachable,
    /// No answer within the limit.
    #[error("the replica did not answer in time")]
    TimedOut,
    /// The other side refused to answer, or the connection broke in the meantime.
    #[error("the request failed: {0}")]
    Failed(String),
}
