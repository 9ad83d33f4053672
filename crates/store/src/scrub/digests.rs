//! What is compared, and what came of comparing.
//!
//! What must never enter: how digests are made.

use vfs::{ChangeAttribute, ObjectId};

/// The rows of some objects. Two replicas that have applied the same updates have the same digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataDigest {
    /// How many objects it covers.
    pub objects: u64,
    /// The last identifier that it covers, there or not.
    pub through: ObjectId,
    /// The digest, by BLAKE3.
    pub hash: [u8; 32],
}

/// The content of one version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDigest {
    /// The version.
    pub change: ChangeAttribute,
    /// Its size in bytes.
    pub size: u64,
    /// The digest, by BLAKE3; a hole is the same as zeros.
    pub hash: [u8; 32],
}

/// What was found when a file was compared with what was noted of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// This version was noted before, with the same bytes.
    Same(ContentDigest),
    /// This version was noted before with other bytes, and nobody has written any since: the disk has changed
    /// them. The note stays until content is taken over, or the file gets another version.
    Different {
        /// The digest as it should be.
        noted: [u8; 32],
        /// And as it is.
        found: ContentDigest,
    },
    /// Nothing was known of this version; it is noted from now on, if its bytes are stable.
    NotKnown(ContentDigest),
    /// The file is being written, or is not complete.
    Busy,
}

/// Is told how many bytes were read since it was told last, and may sleep. `false` ends the reading with
/// [`vfs::Error::Delay`].
pub type Pace<'p> = dyn FnMut(u64) -> bool + 'p;
