//! Digests for comparison, and the results of comparing.
//!
//! What must never enter: how digests are computed.

use vfs::{ChangeAttribute, ObjectId};

/// The digest of the rows of some objects. It is the same at two replicas that have applied the same updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataDigest {
    /// The number of objects that it covers.
    pub objects: u64,
    /// The last identifier that it covers, whether it exists or not.
    pub through: ObjectId,
    /// The digest, by BLAKE3.
    pub hash: [u8; 32],
}

/// The digest of the content of one version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDigest {
    /// The version.
    pub change: ChangeAttribute,
    /// The size in bytes.
    pub size: u64,
    /// The digest, by BLAKE3; a hole is the same as zeros.
    pub hash: [u8; 32],
}

/// The result of comparing a file with its noted digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// This version was noted before, with the same bytes.
    Same(ContentDigest),
    /// This version was noted before with other bytes, and no task has written since: the disk has changed
    /// them. The note stays until the content is replaced, or the file gets another version.
    Different {
        /// The correct digest.
        noted: [u8; 32],
        /// The digest of the bytes found.
        found: ContentDigest,
    },
    /// This version had no note; it has one from now on, if its bytes are stable.
    NotKnown(ContentDigest),
    /// The file is being written, or is incomplete.
    Busy,
}

/// Gets the number of bytes read since the last call, and may sleep. If it returns `false`, reading ends with
/// [`vfs::Error::Delay`].
pub type Pace<'p> = dyn FnMut(u64) -> bool + 'p;
