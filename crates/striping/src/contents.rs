//! The seam of the store: blocking calls, one for each thing that is done to the bytes of a file.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pool::Act;
use store::{AtHand, Contents, Cut, Elsewhere, Need, Place, Stored, SyncError};
use vfs::{Error, ObjectId, Result, SeekTarget};

use crate::striped::{Striped, extent_of};
use crate::view::Whereabouts;

/// The store counts what striped files take up by their size: to ask all data servers would cost a trip for each write.
const STORED: Stored = Stored {
    space_used: 0,
    exists: true,
    made: false,
};

impl Striped {
    fn find(&self, of: Place<'_>) -> Result<Whereabouts> {
        self.inner.find(of.id, of.placement)
    }

    fn change(&self, of: Place<'_>, act: Act) -> Result<()> {
        let file = self.find(of)?;
        // What clients write past the home is not cut by what the row says: that is asked for first (`settling`).
        let _changing = match act {
            Act::Remove => None,
            Act::Fence | Act::Punch(_) | Act::Truncate(_) => Some(self.inner.changing(of.id)),
        };
        let is_alone = || self.inner.is_alone(of.id);
        if act != Act::Remove && !(is_alone()? && self.is_by_the_row(of.id, act)?) {
            return Err(Error::Delay);
        }
        self.wait(self.inner.change(&file, act))
    }
}

impl Striped {
    /// Whether a file is cut to the end that its row says now. Somebody may have asked the data servers since the store looked.
    fn is_by_the_row(&self, id: ObjectId, act: Act) -> Result<bool> {
        let Act::Truncate(size) = act else {
            return Ok(true);
        };
        let by_the_row = self.inner.driver()?.rows().size(id)?;
        Ok(by_the_row.is_none_or(|by_the_row| by_the_row == size))
    }
}

impl Contents for Striped {
    /// Everything is a network away.
    fn read_at_hand(&self, _: Place<'_>, _: &mut [u8], _: u64) -> Result<AtHand> {
        Ok(AtHand::Only(0))
    }

    fn read(&self, of: Place<'_>, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let (file, length) = (self.find(of)?, buffer.len());
        self.wait(self.inner.read(file, buffer, offset))?;
        Ok(length)
    }

    /// Data servers are not asked for holes: all of a file counts as data, which POSIX and RFC 7862 (section 15.11) allow.
    fn seek(&self, _: Place<'_>, offset: u64, target: SeekTarget) -> Result<Option<u64>> {
        Ok(match target {
            SeekTarget::Data => Some(offset),
            // Behind the end, wherever that is.
            SeekTarget::Hole => Some(u64::MAX),
        })
    }

    fn write_at_hand(&self, _: Place<'_>, _: &[u8], _: u64, _: Need) -> Result<Option<Stored>> {
        Ok(None)
    }

    fn write(&self, of: Place<'_>, bytes: &[u8], offset: u64, _: Need) -> Result<Stored> {
        let (file, bytes) = (self.find(of)?, Bytes::copy_from_slice(bytes));
        self.wait(self.inner.write(file, bytes, offset))?;
        Ok(STORED)
    }

    fn reserve(&self, _: Place<'_>, _: Range<u64>, _: Need) -> Result<Stored> {
        Err(Error::NotSupported)
    }

    fn punch(&self, of: Place<'_>, range: Range<u64>) -> Result<Stored> {
        self.change(of, Act::Punch(extent_of(&range)))?;
        Ok(STORED)
    }

    /// Data servers that are away are fenced, and cut before they serve again: with that it is stable.
    fn cut(&self, of: Place<'_>, size: u64) -> Result<Cut> {
        self.change(of, Act::Truncate(size))?;
        Ok(Cut::Unchanged)
    }

    fn make(&self, _: Place<'_>) -> Result<bool> {
        Ok(false)
    }

    fn occupied(&self, _: Place<'_>) -> Result<u64> {
        Ok(0)
    }

    fn sync(&self, of: Place<'_>, _: bool) -> std::result::Result<(), SyncError> {
        let file = self.find(of).map_err(SyncError::Later)?;
        self.wait(self.inner.sync(file))
    }

    fn remove(&self, of: Place<'_>) -> Result<()> {
        self.change(of, Act::Remove)
    }

    /// A home caches nothing.
    fn forget_cached(&self, _: Place<'_>) {}

    fn as_file(&self, _: Place<'_>) -> Result<Option<Arc<File>>> {
        Ok(None)
    }
}

impl Elsewhere for Striped {
    fn place(&self, id: ObjectId) -> Option<Vec<u8>> {
        let placement = self.inner.view().place(id)?;
        Some(placement.encode().to_vec())
    }
}
