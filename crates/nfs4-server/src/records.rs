//! Stable records of which clients hold state, so that they may reclaim it after a restart
//! (RFC 8881, section 8.4.2.1).

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;

/// A client record could not be written or removed. The text is for the log.
#[derive(Debug, thiserror::Error)]
#[error("client records: {0}")]
pub struct RecordError(pub String);

/// The record of a client that holds state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRecord {
    /// The client's own name (`co_ownerid`).
    pub owner: Arc<[u8]>,
    /// How it is recognised. Records of earlier versions do not have this.
    pub known_by: Option<KnownBy>,
}

/// How a client is recognised, because another host could use its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBy {
    /// The verifier that the client sent with its name (`co_verifier`); other clients do not know it.
    pub verifier: [u8; 8],
    /// The network from which it introduced itself: an IPv4 address, or the upper 64 bits of an IPv6 address.
    pub network: IpAddr,
    /// The user of its credentials; `None` for AUTH_NONE.
    pub user: Option<u32>,
}

/// Stores records of clients with state across restarts.
#[async_trait]
pub trait ClientRecords: Send + Sync + 'static {
    /// Writes a record to stable storage, replacing an earlier one of the same owner. Adding an existing one is not an error.
    async fn add(&self, record: ClientRecord) -> Result<(), RecordError>;

    /// Removes an owner's record. Removing a missing one is not an error.
    async fn remove(&self, owner: Arc<[u8]>) -> Result<(), RecordError>;
}
