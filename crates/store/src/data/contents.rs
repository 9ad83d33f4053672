//! The seam under which the bytes of files lie.
//!
//! What belongs here: [`Contents`], the few things that are done to the bytes of a regular file, and the words it needs.
//! Everything above (checksums, marks, kept writes, replication, scrub, locks) goes through it and does not know where
//! bytes are; whoever keeps bytes knows objects by number and nothing of rows, names or sizes. Sparse files of the local
//! file system are one such place (`sparse`).
//!
//! What must never enter: who may do what, how long a file is, when something has to be stable.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use vfs::{ObjectId, Result, SeekTarget};

/// Where the bytes of files are. An object has contents from its first write on.
///
/// Everything waits for a disk or a network as long as it takes, unless it says that it does not; so it is called where
/// that keeps nobody else waiting. Who calls sees to it that nobody else uses an object whose contents get shorter or go.
///
/// # Errors
/// [`vfs::Error::NoSpace`], [`vfs::Error::Delay`] for what passes, [`vfs::Error::Io`] for the rest, among it contents that
/// should be there and are not: nobody may take them for a hole.
pub(crate) trait Contents: fmt::Debug + Send + Sync {
    /// Fills a buffer with what memory holds. Does not wait.
    fn read_at_hand(&self, id: ObjectId, buffer: &mut [u8], offset: u64) -> Result<AtHand>;

    /// Fills a buffer as far as the contents go, holes with zeros. Returns how far that is, in bytes.
    fn read(&self, id: ObjectId, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// The next data or hole; `None` when the contents end before.
    fn seek(&self, id: ObjectId, offset: u64, target: SeekTarget) -> Result<Option<u64>>;

    /// Writes if that takes no longer than a few copies of the bytes; `None` when it would, and nothing was written.
    fn write_at_hand(
        &self,
        id: ObjectId,
        bytes: &[u8],
        offset: u64,
        need: Need,
    ) -> Result<Option<Stored>>;

    /// Writes all of the bytes. After an error any part of them may be there.
    fn write(&self, id: ObjectId, bytes: &[u8], offset: u64, need: Need) -> Result<Stored>;

    /// Reserves storage for a range, and lets the contents reach its end.
    fn reserve(&self, id: ObjectId, range: Range<u64>, need: Need) -> Result<Stored>;

    /// Makes a range zeros and gives its storage back; the contents end where they did.
    fn punch(&self, id: ObjectId, range: Range<u64>) -> Result<Stored>;

    /// Makes the contents no longer than this, in bytes.
    fn cut(&self, id: ObjectId, size: u64) -> Result<Cut>;

    /// Makes contents of no bytes where there are none. Returns whether there were none.
    fn make(&self, id: ObjectId) -> Result<bool>;

    /// The storage that contents take up, in bytes.
    fn occupied(&self, id: ObjectId) -> Result<u64>;

    /// Waits until what was written, cut and punched so far is on stable storage; with `is_new`, also that there are
    /// contents at all. There may be none.
    fn sync(&self, id: ObjectId, is_new: bool) -> std::result::Result<(), SyncError>;

    /// Removes the contents. There may be none.
    fn remove(&self, id: ObjectId) -> Result<()>;

    /// What is read next should come from where it is stable, not from memory, as far as that can be had.
    fn forget_cached(&self, id: ObjectId);

    /// A file of the local file system that has exactly these bytes, where there is one; whoever copies all of it has
    /// cheaper ways then. It must not be changed.
    fn as_file(&self, id: ObjectId) -> Result<Option<Arc<File>>>;
}

/// Whether there have to be contents before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The row says that there are; where they are missing, that is an error.
    Existing,
    /// None were written down yet; they are made.
    Made,
}

impl Need {
    /// What a row asks for that says whether there are contents.
    pub(crate) fn of(stored: bool) -> Need {
        match stored {
            true => Need::Existing,
            false => Need::Made,
        }
    }
}

/// How much of a read memory could answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtHand {
    /// All of it, so many bytes, up to the end of the contents.
    All(usize),
    /// This many bytes, and there may be more.
    Only(usize),
}

/// What contents occupy after something was done to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) space_used: u64,
    /// There are contents.
    pub(crate) exists: bool,
    /// There were none before.
    pub(crate) made: bool,
}

/// What a cut has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// There are no contents.
    Absent,
    /// They were no longer.
    Unchanged,
    Shortened,
}

/// Why something is not known to be stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SyncError {
    /// It is where it was, and the next attempt finds it.
    Later(vfs::Error),
    /// It may be lost, and a later attempt would not notice. Says why, in the system's words.
    Lost(String),
}

/// Bytes with holes that can be read from end to end.
pub(crate) trait Holey {
    /// As [`Contents::read`].
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// As [`Contents::seek`].
    fn seek(&self, offset: u64, target: SeekTarget) -> Result<Option<u64>>;
    /// As [`Contents::forget_cached`].
    fn forget_cached(&self);
}

/// The contents of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'c> {
    pub(crate) contents: &'c dyn Contents,
    pub(crate) id: ObjectId,
}

impl Holey for Content<'_> {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.contents.read(self.id, buffer, offset)
    }

    fn seek(&self, offset: u64, target: SeekTarget) -> Result<Option<u64>> {
        self.contents.seek(self.id, offset, target)
    }

    fn forget_cached(&self) {
        self.contents.forget_cached(self.id);
    }
}
