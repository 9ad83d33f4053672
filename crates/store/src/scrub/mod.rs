//! What a scrub compares: digests of rows and of contents that are the same at every replica, and a note of the
//! last digest of each file, by which a copy sees for itself that bytes have changed on the disk.
//!
//! What must never enter: which replicas to compare, how fast, and what to do about a difference.

mod content;
mod damage;
mod digests;
mod mend;
mod metadata;
mod watch;

use vfs::ObjectId;

use crate::open_store::OpenStore;
pub use digests::{ContentDigest, MetadataDigest, Pace, Verified};
pub use mend::Mending;
pub(crate) use mend::clear_unfinished;
pub(crate) use watch::Watches;

/// What [`crate::decode_as_anything`] says, of noted digests.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = content::decode(bytes);
}

impl OpenStore {
    /// Whether the content of a file is whole here and stable, and nobody has written it for a few seconds.
    #[must_use]
    pub fn is_at_rest(&self, file: ObjectId) -> bool {
        !self.dirty.contains(file) && !self.lacks_content(file)
    }

    /// The files noted so, in the order of identifiers.
    #[must_use]
    pub fn damaged(&self) -> Vec<ObjectId> {
        self.damaged.all()
    }

    /// Whether a file is noted so.
    #[must_use]
    pub fn is_damaged(&self, file: ObjectId) -> bool {
        self.damaged.contains(file)
    }
}
