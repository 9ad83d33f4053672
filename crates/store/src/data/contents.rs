//! The interface below which the bytes of files lie.
//!
//! This module holds [`Contents`], the few operations on the bytes of a regular file, and the types it needs.
//! Everything above (checksums, marks, kept writes, replication, scrub, locks) uses it and does not know where
//! bytes are. Implementations know objects by number and placement, and nothing of rows, names or sizes. One implementation uses sparse
//! files of the local file system (`sparse`); the caller that opens a store may supply another one ([`Elsewhere`]).
//!
//! What must never enter: permissions, the length of files, and when something has to be stable.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use vfs::{ObjectId, Result, SeekTarget, Space};

/// An object and the place of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'p> {
    /// The object.
    pub id: ObjectId,
    /// The placement in its row, as [`Elsewhere::place`] or [`crate::PlacedRows::keep`] gave it. Empty if the bytes are in a
    /// data file of the store.
    pub placement: &'p [u8],
}

/// Where the bytes of files are. An object has contents from its first write on.
///
/// Every function may wait for a disk or a network for as long as that takes, unless it says that it does not wait. So call it
/// outside of asynchronous tasks, where no other task waits for it. The caller ensures that no other task uses an object whose
/// contents are cut or removed.
///
/// # Errors
/// [`vfs::Error::NoSpace`], [`vfs::Error::Delay`] for temporary failures, [`vfs::Error::NotSupported`], [`vfs::Error::Io`] for the rest.
/// The rest includes missing contents that should exist: they must not be read as a hole.
pub trait Contents: fmt::Debug + Send + Sync {
    /// Fills a buffer with bytes that are in memory. Does not wait.
    fn read_at_hand(&self, of: Place<'_>, buffer: &mut [u8], offset: u64) -> Result<AtHand>;

    /// Fills a buffer up to the end of the contents, holes with zeros. Returns the number of bytes.
    fn read(&self, of: Place<'_>, buffer: &mut [u8], offset: u64) -> Result<usize>;

    /// The next data or hole; `None` when the contents end before it.
    fn seek(&self, of: Place<'_>, offset: u64, target: SeekTarget) -> Result<Option<u64>>;

    /// Writes if that takes no longer than a few copies of the bytes. Otherwise writes nothing and returns `None`.
    fn write_at_hand(
        &self,
        of: Place<'_>,
        bytes: &[u8],
        offset: u64,
        need: Need,
    ) -> Result<Option<Stored>>;

    /// Writes all of the bytes. After an error any part of them may be there, and other parts may still appear
    /// until the contents are cut.
    fn write(&self, of: Place<'_>, bytes: &[u8], offset: u64, need: Need) -> Result<Stored>;

    /// Reserves storage for a range, and extends the contents to its end.
    fn reserve(&self, of: Place<'_>, range: Range<u64>, need: Need) -> Result<Stored>;

    /// Replaces a range by zeros and frees its storage. The end of the contents does not change.
    fn punch(&self, of: Place<'_>, range: Range<u64>) -> Result<Stored>;

    /// Cuts the contents to at most this many bytes. Bytes of failed writes do not appear afterwards.
    fn cut(&self, of: Place<'_>, size: u64) -> Result<Cut>;

    /// Creates empty contents if there are none. Returns whether there were none.
    fn make(&self, of: Place<'_>) -> Result<bool>;

    /// The storage that contents take up, in bytes.
    fn occupied(&self, of: Place<'_>) -> Result<u64>;

    /// Waits until all writes, cuts and holes so far are on stable storage; with `is_new`, also the
    /// existence of the contents. There may be none.
    fn sync(&self, of: Place<'_>, is_new: bool) -> std::result::Result<(), SyncError>;

    /// Removes the contents. There may be none.
    fn remove(&self, of: Place<'_>) -> Result<()>;

    /// Makes the next read come from stable storage, not from memory, as far as possible.
    fn forget_cached(&self, of: Place<'_>);

    /// A file of the local file system that has exactly these bytes, if there is one; copying all
    /// of it is cheaper then. The caller must not change it.
    fn as_file(&self, of: Place<'_>) -> Result<Option<Arc<File>>>;
}

/// A place outside of the store for the bytes of those files whose rows say so.
///
/// The implementation checks these bytes: the store keeps no checksums of them and no small writes for them. The
/// store calls it in time even if the store ends in between: a file is marked, stably, before its first byte is
/// written, and a removed file stays listed until [`Contents::remove`] was done.
pub trait Elsewhere: Contents {
    /// The placement of a new file's bytes: 1 to 64 bytes that become part of its row, and are stable before any byte is
    /// written. `None` for a data file of the store. Does not wait.
    fn place(&self, id: ObjectId) -> Option<Vec<u8>>;

    /// The same for objects that may have had contents there which were removed: the new placement does not lead to those.
    fn place_anew(&self) -> Result<PlaceAnew>;

    /// Whether a part of the contents is gone for ever with the server that had it. Does not wait.
    fn has_lost_part(&self, of: Place<'_>) -> bool;

    /// Begins empty new contents for an object that has contents, with the placement a new file would get now.
    fn replace(&self, id: ObjectId) -> Result<Box<dyn Replacement>>;

    /// The space for contents. `own` is the space of the store, which holds their rows. Does not wait.
    fn space(&self, own: Space) -> Space;
}

/// As [`Elsewhere::place`].
pub type PlaceAnew = Box<dyn Fn(ObjectId) -> Option<Vec<u8>> + Send>;

/// New contents that will replace those of an object. They are removed if this is dropped before.
///
/// # Errors
/// As [`Contents`]. The object then keeps its old contents.
pub trait Replacement: fmt::Debug + Send + Sync {
    /// Writes all of the bytes.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// Fills a buffer; unwritten parts read as zeros.
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()>;

    /// Waits until all of it is on stable storage.
    fn sync(&self) -> Result<()>;

    /// Makes these the object's contents, stably, with this size; removes the old contents. The caller ensures that no other task uses the
    /// object meanwhile. Called once.
    fn put_in_place(&self, size: u64) -> Result<()>;
}

impl Holey for &dyn Replacement {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        Replacement::read(*self, buffer, offset)?;
        Ok(buffer.len())
    }

    /// All of it counts as data, like other contents that are elsewhere.
    fn seek(&self, offset: u64, target: SeekTarget) -> Result<Option<u64>> {
        Ok(match target {
            SeekTarget::Data => Some(offset),
            SeekTarget::Hole => Some(u64::MAX),
        })
    }

    fn forget_cached(&self) {}
}

/// Whether contents have to exist before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The row says that they exist; it is an error if they are missing.
    Existing,
    /// The row does not record any; they are created if missing.
    Made,
}

impl Need {
    /// The need of a row; `stored` is whether it records contents.
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

/// The state of contents after an operation.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The storage that they take up, in bytes. For contents elsewhere the store ignores this and counts their size.
    pub space_used: u64,
    /// There are contents.
    pub exists: bool,
    /// There were none before.
    pub made: bool,
}

/// The result of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// There are no contents.
    Absent,
    /// They were not longer, or the cut is stable.
    Unchanged,
    /// They were longer, and may be longer again after a crash.
    Shortened,
}

/// Why data may not be stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncError {
    /// Nothing is lost; a later attempt can still make it stable.
    Later(vfs::Error),
    /// Data may be lost, and a later attempt would not notice. Holds the reason, in the system's words.
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
