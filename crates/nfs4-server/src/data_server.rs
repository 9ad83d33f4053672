//! The role of a data server (RFC 8881, section 13.1): the service shows no names, and serves bytes to clients that have a
//! handle that its metadata server gave out.
//!
//! What must never enter: what is in a handle, and where bytes lie.

use async_trait::async_trait;
use vfs::{Commitment, Stability, Written};
use xdr::Bytes;

/// What a service in the role of a data server serves. A handle is all that decides: who the caller is, and what he has open,
/// is not looked at (RFC 8881, section 13.9.1 leaves the checks to the metadata server).
///
/// A handle is judged again by everything that is done with it, in one step with it; that it counted before says nothing.
#[async_trait]
pub trait DataServer: Send + Sync {
    /// A client has connected: what its requests are marked with ([`Shown::connected`]).
    fn connected(&self) -> Connected;

    /// Whether a handle gives any right now.
    ///
    /// # Errors
    /// [`NotServed::Stale`] when it gives none.
    async fn check(&self, shown: Shown<'_>) -> Result<(), NotServed>;

    /// Bytes from `offset` on, at most `count`; holes are zeros. Fewer when the contents end before.
    ///
    /// # Errors
    /// [`NotServed::Hole`] when nothing is known to be there.
    async fn read(&self, shown: Shown<'_>, offset: u64, count: u32) -> Result<Bytes, NotServed>;

    /// Writes all of the bytes.
    ///
    /// # Errors
    /// [`NotServed::Stale`], also when they cannot be written: the metadata server tells the client why.
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

    /// How far the contents go here, and how much storage they take up.
    ///
    /// # Errors
    /// [`NotServed::Stale`].
    async fn extent(&self, shown: Shown<'_>) -> Result<ContentsExtent, NotServed>;
}

/// When a client connected, as the data server counts that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected(pub u64);

/// What a client shows.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'h> {
    /// The handle.
    pub handle: &'h [u8],
    /// Over which connection: what lies unread in one may be older than what the data server has heard since.
    pub connected: Connected,
}

/// What a data server has of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentsExtent {
    /// Behind the last byte that was written here, in bytes.
    pub end: u64,
    /// Storage, in bytes.
    pub space_used: u64,
}

/// Why a client has to turn to the metadata server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotServed {
    /// With everything of this file: the layout is of no use any more (NFS4ERR_STALE).
    #[error("the handle gives no right here")]
    Stale,
    /// With this one READ: what lies there is not this server's to say (NFS4ERR_PNFS_IO_HOLE, RFC 8881, section 15.1.10.3).
    #[error("nothing is known of these bytes")]
    Hole,
    /// The metadata server itself asks, and is told what it has to tell its clients.
    #[error(transparent)]
    Failed(#[from] vfs::Error),
}
