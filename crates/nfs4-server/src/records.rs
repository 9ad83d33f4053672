//! Stable records of which clients hold state, so that they may reclaim it after a restart
//! (RFC 8881, section 8.4.2.1).

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;

/// A client record could not be written or removed. The text is for the log.
#[derive(Debug, thiserror::Error)]
#[error("client records: {0}")]
pub struct RecordError(pub String);

/// What is kept of a client that holds state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRecord {
    /// Its own name for itself (`co_ownerid`).
    pub owner: Arc<[u8]>,
    /// By what it is known again. Records of earlier versions do not say it.
    pub known_by: Option<KnownBy>,
}

/// By what a client is known again under whose name somebody else could come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBy {
    /// What the client said along with its name (`co_verifier`); others do not know it.
    pub verifier: [u8; 8],
    /// The network from which it introduced itself: an IPv4 address, or the upper 64 bits of an IPv6 address.
    pub network: IpAddr,
    /// The user under whose credentials it did; none for AUTH_NONE.
    pub user: Option<u32>,
}

/// Where records of clients with state are kept across restarts.
#[async_trait]
pub trait ClientRecords: Send + Sync + 'static {
    /// Puts a record on stable storage, in the place of an earlier one of the same owner. Adding one that is there is no error.
    async fn add(&self, record: ClientRecord) -> Result<(), RecordError>;

    /// Forgets an owner. Removing one that is not there is no error.
    async fn remove(&self, owner: Arc<[u8]>) -> Result<(), RecordError>;
}
