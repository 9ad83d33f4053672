//! What the figures of the NFSP paper have on their axes: series, panels, sizes.
//!
//! What must never enter: measuring, and showing.

use crate::extent::Extent;

pub(super) const STAT: &str = "Meridian, stat";
pub(super) const CAT: &str = "Meridian, cat";
pub(super) const CENTRAL: &str = "NFS-Ganesha, cat";

/// The panel of the paper's figure: by the number of metadata servers that the paper's prototype searches.
pub(super) const SEARCHED: &str = "all servers, one after another";
/// The panel by the number of metadata servers that there are.
pub(super) const NUMBER: &str = "more and more servers";

/// How many files are made and looked at.
pub(super) const FILES: u32 = 100;

/// Sizes of the pool, on the way to the last.
pub(super) fn sizes(extent: Extent) -> &'static [usize] {
    extent.choose(&[2, 4, 8, 16], &[2, 4])
}

/// All clients at the first metadata server, which reads and writes for them.
pub(super) const ONE: &str = "one metadata server, through it";
/// Clients spread over all metadata servers, which read and write for them.
pub(super) const THROUGH: &str = "all metadata servers, through them";
/// The same clients, who read and write at the data servers.
pub(super) const PNFS: &str = "all metadata servers, pNFS";

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// All read one file.
    Reading,
    /// Each writes a file of its own.
    Writing,
}

/// How much each client reads or writes, in bytes.
pub(super) fn size(extent: Extent) -> u64 {
    extent.choose(16 << 20, 1 << 20)
}
