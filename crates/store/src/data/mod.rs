//! The data of regular files. The bytes lie behind an interface (`contents`): in one sparse file each (`sparse`),
//! created at the first write, or in the place that the caller that opened the store supplies (`elsewhere`).
//!
//! The object's row is the authority on its size. Bytes of the contents past that size are never visible, and
//! missing bytes below it are a hole. Rows are changed only through
//! [`crate::mutation::Mutation`]; this module knows nothing of names or directories.

mod allocate;
mod alone;
mod buffers;
mod closing;
mod contents;
mod dirty;
mod elsewhere;
mod exchange;
mod files;
mod filled;
mod guards;
mod kept;
mod read;
mod resize;
mod sparse;
mod stabilise;
mod sums;
mod verify;
mod write;

pub(crate) use alone::{Alone, Resized};
pub(crate) use buffers::Buffers;
pub(crate) use contents::Holey;
pub use contents::{
    AtHand, Contents, Cut, Elsewhere, Need, Place, PlaceAnew, Replacement, Stored, SyncError,
};
pub(crate) use dirty::{DirtyFiles, Origin};
pub use elsewhere::{Placed, PlacedRows};
pub(crate) use files::DataFiles;
pub(crate) use guards::{Exclusive, Guards};
pub(crate) use kept::remove_rows;
pub(crate) use resize::Reason;
pub(crate) use sums::OpenSums;

/// The part of [`crate::decode_as_anything`] for checksums and kept writes.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = closing::decode(bytes);
    let _ = kept::parse_piece(bytes);
}

/// The largest file size: offsets stay within 63 bits, and ext4 ends at 16 TiB.
pub(crate) const MAX_FILE_BYTES: u64 = (1 << 44) - 4096;
