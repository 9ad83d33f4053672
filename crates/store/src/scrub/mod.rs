//! What a scrub compares: digests of rows and contents that are the same at every replica, and a note of each file's
//! last digest, by which a copy detects that bytes have changed on the disk.
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

/// The part of [`crate::decode_as_anything`] for noted digests.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = content::decode(bytes);
}

impl OpenStore {
    /// Whether the content of a file is complete and stable here, and no task has written it for a few seconds.
    #[must_use]
    pub fn is_at_rest(&self, file: ObjectId) -> bool {
        !self.dirty.contains(file) && !self.lacks_content(file)
    }

    /// The files noted as damaged, in the order of identifiers.
    #[must_use]
    pub fn damaged(&self) -> Vec<ObjectId> {
        self.damaged.all()
    }

    /// Whether a file is noted as damaged.
    #[must_use]
    pub fn is_damaged(&self, file: ObjectId) -> bool {
        self.damaged.contains(file)
    }
}
