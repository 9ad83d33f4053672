//! Layouts, with which clients read and write directly at data servers (RFC 8881, chapters 12 and 13). This is the
//! interface to the home of the files, which decides about them.
//!
//! What must never enter: which servers exist, the content of a handle, and how long to wait for clients.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use vfs::ObjectId;
use xdr::Bytes;

/// The home of the files of an export that are striped over data servers.
///
/// It knows the holder of each layout, by numbers that are used only once, and what it has to ask data servers because
/// of a holder. It forgets a holder when its layout has ended in any way. When a layout must end because the contents
/// change, the home reports [`LayoutEvent::Recall`] repeatedly, waits as long as it wants, and then continues without
/// the holder: from then on the issued handles are invalid, whatever the client may have answered.
#[async_trait]
pub trait Layouts: Send + Sync {
    /// The properties that all layouts share.
    fn properties(&self) -> LayoutProperties;

    /// The addresses of each data server of a device, in the order of stripes. `None` when the device does not exist, or not any more.
    async fn device(&self, device: DeviceId) -> Option<Vec<Vec<SocketAddr>>>;

    /// All devices that layouts may name.
    async fn devices(&self) -> Vec<DeviceId>;

    /// Gives a layout of a whole file. A holder that asks again gets the larger of the two rights.
    ///
    /// # Errors
    /// What the client should do instead.
    async fn layout(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        access: LayoutAccess,
    ) -> Result<FileLayout, NoLayout>;

    /// A holder has returned its layout, and has no requests in progress. After this the file shows what was written
    /// through the layout. An unknown holder has nothing to return.
    ///
    /// # Errors
    /// When this cannot be determined now.
    async fn returned(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()>;

    /// A holder has lost the state that its layout depends on. After this none of its requests in progress can have an
    /// effect any more, and the file shows those that had one.
    ///
    /// # Errors
    /// `Delay` to be called again.
    async fn lost(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()>;

    /// A holder reports that it has written, and that the file has at least the size `end`. Returns the size.
    ///
    /// # Errors
    /// When its layout has ended, [`NoLayout::ThroughServer`].
    async fn commit(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        end: Option<u64>,
    ) -> Result<u64, NoLayout>;

    /// Adds a listener for events of all layouts. The listener must not wait for anything.
    fn on_event(&self, listener: Arc<dyn Fn(LayoutEvent) + Send + Sync>);
}

/// The holder of a layout of a file: one client, until its layout ends. No number is used twice, and 0 is never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayoutHolder(pub u64);

/// Identifies the data servers over which files are striped together, with their order and addresses. It never changes
/// (RFC 8881, section 12.2.10): other addresses are another device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub [u8; 16]);

/// The purpose of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayoutAccess {
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// The location of the bytes of a file: sparse packing, from the beginning to the largest possible end (RFC 8881, section 13.4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLayout {
    /// The data servers.
    pub device: DeviceId,
    /// The number of consecutive bytes on one data server: a multiple of 64.
    pub stripe_unit: u32,
    /// The index in the device of the data server with the first bytes.
    pub first_index: u32,
    /// The handle for each data server, in the order of the device.
    pub handles: Vec<Bytes>,
}

/// The common properties of the layouts of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutProperties {
    /// The usual stripe unit, in bytes.
    pub stripe_unit: u32,
    /// The size in bytes below which files should be read and written through the metadata server.
    pub threshold: Option<u64>,
}

/// Why a client gets no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLayout {
    /// Layouts of the file are being recalled: ask again (NFS4ERR_RECALLCONFLICT).
    #[error("layouts of the file are being recalled")]
    Recalled,
    /// Read and write through the metadata server for now (NFS4ERR_BADLAYOUT).
    #[error("there is no layout of the file now")]
    ThroughServer,
    /// The file has no layouts (NFS4ERR_LAYOUTUNAVAILABLE).
    #[error("there are no layouts of the file")]
    Unavailable,
    /// There is no such file (NFS4ERR_STALE).
    #[error("the file is gone")]
    Gone,
}

/// An event of a layout that no request caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutEvent {
    /// A holder must return its layout. Repeated about once a second, until it has or the home stops waiting.
    Recall(LayoutHolder),
    /// Clients must forget a device: it does not exist any more, or it was away and has come back.
    DeviceGone(DeviceId),
}
