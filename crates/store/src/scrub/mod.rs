//! What a scrub compares: digests of rows and of contents that are the same at every replica, and a note of the
//! last digest of each file, by which a copy sees for itself that bytes have changed on the disk.
//!
//! What must never enter: which replicas to compare, how fast, and what to do about a difference.

mod content;
mod damage;
mod mend;
mod metadata;
mod watch;

use std::ops::RangeInclusive;

use vfs::{ChangeAttribute, ObjectId, Result};

use crate::store::Store;
pub use mend::Mending;
pub(crate) use mend::clear_unfinished;
pub(crate) use watch::Watches;

/// What [`crate::decode_as_anything`] says, of noted digests.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = content::decode(bytes);
}

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

impl Store {
    /// A digest of the rows of the objects with these identifiers, or of the first `max_objects` of them: what an
    /// object is, its extended attributes, its names, and the names in it if it is a directory. Left out is
    /// what each copy knows for itself: the time of last access, whether there is a data file, and files
    /// without a name. It reads from the disk and may block for as long as that takes.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn digest_metadata(
        &self,
        range: RangeInclusive<ObjectId>,
        max_objects: u64,
    ) -> Result<MetadataDigest> {
        self.inner.digest_metadata(range, max_objects)
    }

    /// A digest of the content of a file; `None` while it is being written, or is not complete. It reads all
    /// of the file from the disk and may block for as long as that takes.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are no files; [`vfs::Error::Io`] when the
    /// content cannot be read.
    pub fn digest_content(
        &self,
        file: ObjectId,
        pace: &mut Pace<'_>,
    ) -> Result<Option<ContentDigest>> {
        self.inner.digest_content(file, pace)
    }

    /// Compares the content of a file with what was noted of the same version before; notes it when nothing was.
    /// It reads all of the file from the disk and may block for as long as that takes.
    ///
    /// # Errors
    /// As [`Store::digest_content`].
    pub fn verify_content(&self, file: ObjectId, pace: &mut Pace<'_>) -> Result<Verified> {
        self.inner.verify_content(file, pace)
    }

    /// What was noted of the content of a file, if the file is still of that version. Nothing is read from the
    /// data file.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are no files; [`vfs::Error::Io`] when the
    /// row cannot be read.
    pub fn noted_content(&self, file: ObjectId) -> Result<Option<ContentDigest>> {
        self.inner.noted_content(file)
    }

    /// Whether the content of a file is whole here and stable, and nobody has written it for a few seconds.
    #[must_use]
    pub fn is_at_rest(&self, file: ObjectId) -> bool {
        !self.inner.dirty.contains(file) && !self.inner.lacks_content(file)
    }

    /// Notes that the content of a file, which was looked at as it was in this version, is not what it should be. `false`: it is
    /// of another one by now, or somebody writes it; then nothing is noted. From now on it is neither read nor sent to
    /// other replicas, until it is mended ([`Store::begin_mending`]), emptied or removed. `note_is_right`: what was
    /// noted of it ([`Store::noted_content`]) is what it should be; else that is forgotten. Stable on return.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are no files; [`vfs::Error::Io`] when
    /// storage fails.
    pub async fn note_damaged(
        &self,
        file: ObjectId,
        version: ChangeAttribute,
        note_is_right: bool,
    ) -> Result<bool> {
        let noting = self.inner.note_damaged(file, version, note_is_right);
        noting.await
    }

    /// Takes that back of a file that is empty by now, since nothing is left of what was wrong; says whether it is.
    ///
    /// # Errors
    /// As [`Store::note_damaged`].
    pub async fn forget_damage_of_empty(&self, file: ObjectId) -> Result<bool> {
        self.inner.forget_damage_of_empty(file).await
    }

    /// The files noted so, in the order of identifiers.
    #[must_use]
    pub fn damaged(&self) -> Vec<ObjectId> {
        self.inner.damaged.all()
    }

    /// Whether a file is noted so.
    #[must_use]
    pub fn is_damaged(&self, file: ObjectId) -> bool {
        self.inner.damaged.contains(file)
    }

    /// Begins to put another content in the place of a file's.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are no files; [`vfs::Error::Io`] when
    /// nothing can be written.
    pub async fn begin_mending(&self, file: ObjectId) -> Result<Mending> {
        self.inner.begin_mending(file).await
    }
}
