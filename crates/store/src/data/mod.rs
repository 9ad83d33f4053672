//! The data of regular files. Where their bytes lie is behind a seam (`contents`): in one sparse file each (`sparse`),
//! made when it is first needed, or where the caller that opened the store has a place for them (`elsewhere`).
//!
//! The object's row is the authority on its size: bytes of the contents behind it are never shown, and
//! where the contents are shorter there is a hole. Rows are changed through
//! [`crate::mutation::Mutation`] only; nothing in here knows names or directories.

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
pub(crate) use sums::OpenSums;

/// What [`crate::decode_as_anything`] says, of checksums and of small writes that are kept as rows.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = closing::decode(bytes);
    let _ = kept::parse_piece(bytes);
}

/// The largest file: offsets stay within 63 bits, and ext4 ends at 16 TiB.
pub(crate) const MAX_FILE_BYTES: u64 = (1 << 44) - 4096;
