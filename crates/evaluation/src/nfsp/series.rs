//! The axes of the figures of the NFSP paper: series, panels, sizes.
//!
//! What must never enter: measuring, and showing.

use super::streams::{DEPTH, DEPTH_WRITING};
use super::{QUEUE, QUEUE_WRITING};
use crate::extent::Extent;

pub(super) const STAT: &str = "Meridian, stat";
pub(super) const CAT: &str = "Meridian, cat";
pub(super) const CENTRAL: &str = "NFS-Ganesha, cat";

/// The panel of the paper's figure: by the number of metadata servers that the paper's prototype searches.
pub(super) const SEARCHED: &str = "all servers, one after another";
/// The panel by the total number of metadata servers.
pub(super) const NUMBER: &str = "more and more servers";

/// The number of files that are made and accessed.
pub(super) const FILES: u32 = 100;

/// Sizes of the pool, on the way to the last.
pub(super) fn sizes(extent: Extent) -> &'static [usize] {
    extent.choose(&[2, 4, 8, 16], &[2, 4])
}

/// All clients at the first metadata server, which reads and writes for them.
pub(super) const ONE: &str = "one metadata server, through it";
/// Clients spread over all metadata servers, which read and write for them.
pub(super) const THROUGH: &str = "all metadata servers, through them";
/// The same clients, which read and write at the data servers.
pub(super) const PNFS: &str = "all metadata servers, pNFS";

/// The work of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// All read one file.
    Reading,
    /// Each writes its own file.
    Writing,
}

impl Doing {
    /// The bytes that can wait in front of a card.
    pub(super) fn queue(self) -> u64 {
        match self {
            Doing::Reading => QUEUE,
            Doing::Writing => QUEUE_WRITING,
        }
    }

    /// The number of active requests of a client at one server.
    pub(super) fn depth(self) -> usize {
        match self {
            Doing::Reading => DEPTH,
            Doing::Writing => DEPTH_WRITING,
        }
    }
}

/// The number of bytes that each client of a series reads or writes: where one card limits all of them, little suffices. Elsewhere the
/// first and the last moments, when some cards have no work, must count little.
pub(super) fn size(series: &str, extent: Extent) -> u64 {
    let full = match series {
        PNFS => 64 << 20,
        THROUGH => 32 << 20,
        _ => 8 << 20,
    };
    extent.choose(full, 1 << 20)
}

/// The size of the file that all read, each so much of it.
pub(super) fn size_of_all(extent: Extent) -> u64 {
    size(PNFS, extent)
}
