//! The seam under which the bytes of files lie.
//!
//! What belongs here: [`Contents`], the few things that are done to the bytes of a regular file, and the words it needs.
//! Everything above (checksums, marks, kept writes, replication, scrub, locks) goes through it and does not know where
//! bytes are; the code that keeps bytes knows objects by number and placement and nothing of rows, names or sizes. Sparse files of the
//! local file system are one such place (`sparse`); the caller that opens a store may give it another one ([`Elsewhere`]).
//!
//! What must never enter: who may do what, how long a file is, when something has to be stable.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use vfs::{ObjectId, Result, SeekTarget, Space};

/// Whose bytes, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'p> {
    /// The object.
    pub id: ObjectId,
    /// What its row says of where they are, as [`Elsewhere::place`] or [`crate::PlacedRows::keep`] gave it; nothing when they are in a
    /// data file of the store.
    pub placement: &'p [u8],
}

/// Where the bytes of files are. An object has contents from its first write on.
///
/// Everything waits for a disk or a network as long as it takes, unless it says that it does not; so it is called where
/// that keeps nobody else waiting: outside of asynchronous tasks. Who calls sees to it that nobody else uses an object whose
/// contents get shorter or go.
///
/// # Errors
/// [`vfs::Error::NoSpace`], [`vfs::Error::Delay`] for what passes, [`vfs::Error::NotSupported`], [`vfs::Error::Io`] for the rest, among
/// it contents that should be there and are not: nobody may take them for a hole.
pub trait Contents: fmt::Debug + Send + Sync {
    /// Fills a buffer with what memory holds. Does not wait.
    fn read_at_hand(&self, of: Place<'_>, buffer: &mut [u8], offset: u64) -> Result<AtHand>;

    /// Fills a buffer as far as the contents go, holes with zeros. Returns how far that is, in bytes.
    fn read(&self, of: Place<'_>, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// The next data or hole; `None` when the contents end before.
    fn seek(&self, of: Place<'_>, offset: u64, target: SeekTarget) -> Result<Option<u64>>;

    /// Writes if that takes no longer than a few copies of the bytes; `None` when it would, and nothing was written.
    fn write_at_hand(
        &self,
        of: Place<'_>,
        bytes: &[u8],
        offset: u64,
        need: Need,
    ) -> Result<Option<Stored>>;

    /// Writes all of the bytes. After an error any part of them may be there, and what is left of the attempt may still come
    /// until the contents are cut.
    fn write(&self, of: Place<'_>, bytes: &[u8], offset: u64, need: Need) -> Result<Stored>;

    /// Reserves storage for a range, and lets the contents reach its end.
    fn reserve(&self, of: Place<'_>, range: Range<u64>, need: Need) -> Result<Stored>;

    /// Makes a range zeros and gives its storage back; the contents end where they did.
    fn punch(&self, of: Place<'_>, range: Range<u64>) -> Result<Stored>;

    /// Makes the contents no longer than this, in bytes. What is left of writes that failed comes no more.
    fn cut(&self, of: Place<'_>, size: u64) -> Result<Cut>;

    /// Makes contents of no bytes where there are none. Returns whether there were none.
    fn make(&self, of: Place<'_>) -> Result<bool>;

    /// The storage that contents take up, in bytes.
    fn occupied(&self, of: Place<'_>) -> Result<u64>;

    /// Waits until what was written, cut and punched so far is on stable storage; with `is_new`, also that there are
    /// contents at all. There may be none.
    fn sync(&self, of: Place<'_>, is_new: bool) -> std::result::Result<(), SyncError>;

    /// Removes the contents. There may be none.
    fn remove(&self, of: Place<'_>) -> Result<()>;

    /// What is read next should come from where it is stable, not from memory, as far as that can be had.
    fn forget_cached(&self, of: Place<'_>);

    /// A file of the local file system that has exactly these bytes, where there is one; a caller that copies all of
    /// it has cheaper ways then. It must not be changed.
    fn as_file(&self, of: Place<'_>) -> Result<Option<Arc<File>>>;
}

/// A place outside of the store where files have their bytes: those whose rows say so.
///
/// The code that keeps bytes there checks them: the store makes no checksums of theirs and keeps no small writes for them. What it
/// wants done for rows that say so is done in time even if the store ends between: a file is marked, stably, before its first byte is
/// written, and a removed one is listed until [`Contents::remove`] was done.
pub trait Elsewhere: Contents {
    /// Where the bytes of a new file are to be: 1 to 64 bytes that become part of its row, and are stable before anything is
    /// written. `None` to have them in a data file of the store. Does not wait.
    fn place(&self, id: ObjectId) -> Option<Vec<u8>>;

    /// The same for objects that may have had contents there, which were removed: such contents are not met again.
    fn place_anew(&self) -> Result<PlaceAnew>;

    /// Whether a part of some contents is gone for ever with the server that had it. Does not wait.
    fn has_lost_part(&self, of: Place<'_>) -> bool;

    /// Begins other contents of an object that has some, as they would be placed now. There is nothing in them.
    fn replace(&self, id: ObjectId) -> Result<Box<dyn Replacement>>;

    /// The space for contents, where that of the store, which has their rows, is `own`. Does not wait.
    fn space(&self, own: Space) -> Space;
}

/// As [`Elsewhere::place`].
pub type PlaceAnew = Box<dyn Fn(ObjectId) -> Option<Vec<u8>> + Send>;

/// Contents that are to take the place of others. Dropped before that, they go.
///
/// # Errors
/// As [`Contents`]. The object then has the contents that it had.
pub trait Replacement: fmt::Debug + Send + Sync {
    /// Writes all of the bytes.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Fills a buffer; what was not written reads as zeros.
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()>;

    /// Waits until all of it is on stable storage.
    fn sync(&self) -> Result<()>;

    /// They are the object's from now on, stably, and end at this size; those of before go. Nobody else uses the object meanwhile.
    /// Called once.
    fn put_in_place(&self, size: u64) -> Result<()>;
}

impl Holey for &dyn Replacement {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        Replacement::read(*self, buffer, offset)?;
        Ok(buffer.len())
    }

    /// All of it counts as data, as that of other contents that are elsewhere.
    fn seek(&self, offset: u64, target: SeekTarget) -> Result<Option<u64>> {
        Ok(match target {
            SeekTarget::Data => Some(offset),
            SeekTarget::Hole => Some(u64::MAX),
        })
    }

    fn forget_cached(&self) {}
}

/// Whether there have to be contents before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
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
pub enum AtHand {
    /// All of it, this many bytes, up to the end of the contents.
    All(usize),
    /// This many bytes, and there may be more.
    Only(usize),
}

/// What contents occupy after something was done to them.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The storage that they take up, in bytes. Of contents that are elsewhere the store does not believe it, and counts their size.
    pub space_used: u64,
    /// There are contents.
    pub exists: bool,
    /// There were none before.
    pub made: bool,
}

/// What a cut has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// There are no contents.
    Absent,
    /// They were no longer, or the cut is stable.
    Unchanged,
    /// They were longer, and could be so again after a crash.
    Shortened,
}

/// Why something is not known to be stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncError {
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
#[derive(Clone, Debug)]
pub(crate) struct Content<'c> {
    contents: &'c dyn Contents,
    pub(super) id: ObjectId,
    placement: Option<Arc<[u8]>>,
}

impl<'c> Content<'c> {
    pub(crate) fn new(
        contents: &'c dyn Contents,
        id: ObjectId,
        placement: Option<Arc<[u8]>>,
    ) -> Content<'c> {
        Content {
            contents,
            id,
            placement,
        }
    }

    fn place(&self) -> Place<'_> {
        Place {
            id: self.id,
            placement: self.placement.as_deref().unwrap_or_default(),
        }
    }

    /// Whether they are not in a data file of the store.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.placement.is_some()
    }

    pub(crate) fn read_at_hand(&self, buffer: &mut [u8], offset: u64) -> Result<AtHand> {
        self.contents.read_at_hand(self.place(), buffer, offset)
    }

    pub(crate) fn write_at_hand(
        &self,
        bytes: &[u8],
        offset: u64,
        need: Need,
    ) -> Result<Option<Stored>> {
        let at = self.place();
        self.contents.write_at_hand(at, bytes, offset, need)
    }

    pub(crate) fn write(&self, bytes: &[u8], offset: u64, need: Need) -> Result<Stored> {
        self.contents.write(self.place(), bytes, offset, need)
    }

    pub(crate) fn reserve(&self, range: Range<u64>, need: Need) -> Result<Stored> {
        self.contents.reserve(self.place(), range, need)
    }

    pub(crate) fn punch(&self, range: Range<u64>) -> Result<Stored> {
        self.contents.punch(self.place(), range)
    }

    pub(crate) fn cut(&self, size: u64) -> Result<Cut> {
        self.contents.cut(self.place(), size)
    }

    pub(crate) fn make(&self) -> Result<bool> {
        self.contents.make(self.place())
    }

    pub(crate) fn occupied(&self) -> Result<u64> {
        self.contents.occupied(self.place())
    }

    pub(crate) fn sync(&self, is_new: bool) -> std::result::Result<(), SyncError> {
        self.contents.sync(self.place(), is_new)
    }

    pub(crate) fn remove(&self) -> Result<()> {
        self.contents.remove(self.place())
    }

    pub(crate) fn as_file(&self) -> Result<Option<Arc<File>>> {
        self.contents.as_file(self.place())
    }
}

impl Holey for Content<'_> {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.contents.read(self.place(), buffer, offset)
    }

    fn seek(&self, offset: u64, target: SeekTarget) -> Result<Option<u64>> {
        self.contents.seek(self.place(), offset, target)
    }

    fn forget_cached(&self) {
        self.contents.forget_cached(self.place());
    }
}
