//! Layouts: how clients come to read and write at data servers themselves (RFC 8881, chapters 12 and 13), as far as somebody else
//! decides it: the home of the files.
//!
//! What must never enter: which servers there are, what a handle says, and how long clients are waited for.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use vfs::ObjectId;
use xdr::Bytes;

/// The home of the files of an export that are striped over data servers.
///
/// It knows who holds a layout of which file, by numbers that are used once each, and what data servers are asked for their sake. A holder
/// is forgotten when its layout ends, by whatever way. When a layout is to end because the contents are changed under it, the home
/// says so ([`LayoutEvent::Recall`]), again and again, waits as long as it likes, and goes on without the holder: from then on the
/// handles that were given out are worth nothing, whatever the client may have answered.
#[async_trait]
pub trait Layouts: Send + Sync {
    /// What all layouts have in common.
    fn properties(&self) -> LayoutProperties;

    /// The addresses of each data server of a device, in the order of stripes. `None` when there is no such device, or not any more.
    async fn device(&self, device: DeviceId) -> Option<Vec<Vec<SocketAddr>>>;

    /// All devices that layouts may name.
    async fn devices(&self) -> Vec<DeviceId>;

    /// A layout of a whole file. A holder that asks again has the larger right of both.
    ///
    /// # Errors
    /// What the client is to do instead.
    async fn layout(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        access: LayoutAccess,
    ) -> Result<FileLayout, NoLayout>;

    /// A holder has given its layout back, and has nothing under way. Afterwards the file shows what was written through it. A
    /// holder that is not known has nothing to give back.
    ///
    /// # Errors
    /// When that cannot be found out now.
    async fn returned(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()>;

    /// A holder has lost what its layout rests on. Afterwards nothing that it has under way can happen any more, and the file
    /// shows what has.
    ///
    /// # Errors
    /// `Delay` to be asked again.
    async fn lost(&self, file: ObjectId, holder: LayoutHolder) -> vfs::Result<()>;

    /// A holder says that it has written, and that the file ends at `end` at least. Returns the size.
    ///
    /// # Errors
    /// When its layout has ended, [`NoLayout::ThroughServer`].
    async fn commit(
        &self,
        file: ObjectId,
        holder: LayoutHolder,
        end: Option<u64>,
    ) -> Result<u64, NoLayout>;

    /// Adds somebody who is told what happens to layouts of anybody. The listener does not wait for anything.
    fn on_event(&self, listener: Arc<dyn Fn(LayoutEvent) + Send + Sync>);
}

/// Who holds a layout of a file: one client, until it has none any more. No number is used twice, and 0 never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayoutHolder(pub u64);

/// Names the data servers over which files are striped together, in their order and with their addresses. It never changes
/// (RFC 8881, section 12.2.10): other addresses are another device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub [u8; 16]);

/// What a layout is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayoutAccess {
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// Where the bytes of a file lie: packed sparsely, from the beginning to the largest possible end (RFC 8881, section 13.4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLayout {
    /// The data servers.
    pub device: DeviceId,
    /// How many bytes lie together: a multiple of 64.
    pub stripe_unit: u32,
    /// The place in the device of the data server that has the first bytes.
    pub first_index: u32,
    /// What each data server is shown, in the order of the device.
    pub handles: Vec<Bytes>,
}

/// What the layouts of an export have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutProperties {
    /// The usual stripe unit, in bytes.
    pub stripe_unit: u32,
    /// Smaller files are better read and written through the metadata server; in bytes.
    pub threshold: Option<u64>,
}

/// Why there is no layout.
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

/// What happens to layouts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutEvent {
    /// A holder is to give its layout back. Said again about once a second, until it has or is not waited for any more.
    Recall(LayoutHolder),
    /// Clients are to forget a device: it is no more, or was away and is back.
    DeviceGone(DeviceId),
}
