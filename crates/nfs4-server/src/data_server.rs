//! The role of a data server (RFC 8881, section 13.1): the service has no names, and serves bytes to clients with a
//! handle from its metadata server.
//!
//! What must never enter: the content of a handle, and where bytes are stored.

use async_trait::async_trait;
use vfs::{Commitment, Stability, Written};
use xdr::Bytes;

/// Serves contents by handle. Only the handle decides: the caller's identity and opens are not checked (RFC 8881,
/// section 13.9.1 leaves the checks to the metadata server).
///
/// Every operation checks the handle again, atomically with its effect. An earlier successful check means nothing.
#[async_trait]
pub trait DataServer: Send + Sync {
    /// A client has connected: returns the mark for its requests ([`Shown::connected`]).
    fn connected(&self) -> Connected;

    /// Whether a handle gives any right now.
    ///
    /// # Errors
    /// [`NotServed::Stale`] when it gives none.
    async fn check(&self, shown: Shown<'_>) -> Result<(), NotServed>;

    /// Reads bytes from `offset` on, at most `count`; holes are zeros. Returns fewer when the contents end earlier.
    ///
    /// # Errors
    /// [`NotServed::Hole`] when it is unknown whether there is data.
    async fn read(&self, shown: Shown<'_>, offset: u64, count: u32) -> Result<Bytes, NotServed>;

    /// Writes all of the bytes.
    ///
    /// # Errors
    /// [`NotServed::Stale`], also when the bytes cannot be written: the metadata server tells the client why.
    async fn write(
        &self,
        shown: Shown<'_>,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written, NotServed>;

    /// Makes everything stable that was written to these contents.
    ///
    /// # Errors
    /// [`NotServed::Stale`].
    async fn commit(&self, shown: Shown<'_>) -> Result<Commitment, NotServed>;

    /// The end of the contents here, and the storage that they use.
    ///
    /// # Errors
    /// [`NotServed::Stale`].
    async fn extent(&self, shown: Shown<'_>) -> Result<ContentsExtent, NotServed>;
}

/// The time at which a client connected, in the count of the data server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected(pub u64);

/// The identification of a client's request.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'h> {
    /// The handle.
    pub handle: &'h [u8],
    /// The connection: unread requests in it may be older than what the data server has learned since.
    pub connected: Connected,
}

/// The part of a file at a data server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentsExtent {
    /// The offset after the last byte that was written here.
    pub end: u64,
    /// Storage, in bytes.
    pub space_used: u64,
}

/// Why a client has to use the metadata server instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotServed {
    /// For the whole file: the layout is invalid (NFS4ERR_STALE).
    #[error("the handle gives no right here")]
    Stale,
    /// For this READ only: this server does not know what is there (NFS4ERR_PNFS_IO_HOLE, RFC 8881, section 15.1.10.3).
    #[error("nothing is known of these bytes")]
    Hole,
    /// The caller is the metadata server itself, and this error is for its clients.
    #[error(transparent)]
    Failed(#[from] vfs::Error),
}
