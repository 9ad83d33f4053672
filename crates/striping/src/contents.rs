//! The interface of the store: blocking calls, one for each operation on the bytes of a file.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use pool::{Act, Placement};
use store::{
    AtHand, Contents, Cut, Elsewhere, Need, Place, PlaceAnew, Replacement, Stored, SyncError,
};
use vfs::{Error, ObjectId, Result, SeekTarget, Space};

use crate::settling::Going;
use crate::striped::{Striped, extent_of};
use crate::view::Whereabouts;

/// Why data is not stable, or cannot be synced.
struct Unsynced(SyncError);

impl From<Error> for Unsynced {
    fn from(error: Error) -> Unsynced {
        Unsynced(SyncError::Later(error))
    }
}

/// The store counts the space of striped files by their size: asking all data servers would cost a round trip for each write.
const STORED: Stored = Stored {
    space_used: 0,
    exists: true,
    made: false,
};

impl Striped {
    fn find(&self, of: Place<'_>) -> Result<Whereabouts> {
        self.files.find(of.id, of.placement)
    }

    /// Runs an operation where a file lies. Retries when it fails and the file was moved meanwhile.
    fn there<T, E: From<Error>>(
        &self,
        of: Place<'_>,
        mut act: impl FnMut(Whereabouts) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut file = self.find_now(of)?;
        loop {
            let before = file.row.contents;
            let done = act(file);
            match self.files.present(of.id) {
                Ok(Some(now)) if done.is_err() && now.row.contents != before => file = now,
                _ => return done,
            }
        }
    }

    /// Holds a change back while a move is about to switch the file's contents, unless a layer above does so.
    fn hold(&self, id: ObjectId) -> Result<Option<Going>> {
        match self.files.holds_writes() {
            true => self.wait(self.files.changing_when_let(id)).map(Some),
            false => Ok(None),
        }
    }

    /// Where a file that is about to be changed lies. Follows a move since the store looked.
    fn find_now(&self, of: Place<'_>) -> Result<Whereabouts> {
        match self.files.holds_writes() {
            true => self
                .files
                .present(of.id)
                .and_then(|found| found.map_or_else(|| self.find(of), Ok)),
            false => self.find(of),
        }
    }

    fn change(&self, of: Place<'_>, act: Act) -> Result<()> {
        let _held = match act {
            Act::Remove => None,
            Act::Fence | Act::Punch(_) | Act::Truncate(_) => self.hold(of.id)?,
        };
        let file = self.find_now(of)?;
        // A cut by an outdated row would drop direct writes of clients. So the row must be settled first (`settling`).
        let _changing = match act {
            Act::Remove => None,
            Act::Fence | Act::Punch(_) | Act::Truncate(_) => Some(self.files.changing(of.id)),
        };
        let is_alone = || self.files.is_alone(of.id);
        if act != Act::Remove && !(is_alone()? && self.is_by_the_row(of.id, act)?) {
            return Err(Error::Delay);
        }
        let done = self.wait(self.files.change(&file, act));
        match act {
            Act::Punch(hole) => {
                let end = hole.offset.saturating_add(hole.length);
                self.files.note_changed(of.id, hole.offset..end, false);
            }
            Act::Truncate(size) => self.files.note_changed(of.id, size..u64::MAX, false),
            Act::Fence | Act::Remove => {}
        }
        done
    }
}

impl Striped {
    /// Whether a file is cut to the size that its row says now. Another task may have settled it since the store looked.
    fn is_by_the_row(&self, id: ObjectId, act: Act) -> Result<bool> {
        let Act::Truncate(size) = act else {
            return Ok(true);
        };
        let by_the_row = self.files.driver()?.rows().size(id)?;
        Ok(by_the_row.is_none_or(|by_the_row| by_the_row == size))
    }
}

impl Contents for Striped {
    /// No bytes are local.
    fn read_at_hand(&self, _: Place<'_>, _: &mut [u8], _: u64) -> Result<AtHand> {
        Ok(AtHand::Only(0))
    }

    fn read(&self, of: Place<'_>, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.there(of, |file| self.wait(self.files.read(file, buffer, offset)))?;
        Ok(buffer.len())
    }

    /// Data servers are not asked for holes: all of a file counts as data, which POSIX and RFC 7862 (section 15.11) allow.
    fn seek(&self, _: Place<'_>, offset: u64, target: SeekTarget) -> Result<Option<u64>> {
        Ok(match target {
            SeekTarget::Data => Some(offset),
            // Beyond the end, wherever that is.
            SeekTarget::Hole => Some(u64::MAX),
        })
    }

    fn write_at_hand(&self, _: Place<'_>, _: &[u8], _: u64, _: Need) -> Result<Option<Stored>> {
        Ok(None)
    }

    fn write(&self, of: Place<'_>, bytes: &[u8], offset: u64, _: Need) -> Result<Stored> {
        let bytes = Bytes::copy_from_slice(bytes);
        let range = offset..offset.saturating_add(bytes.len() as u64);
        let _held = self.hold(of.id)?;
        let written = self.there(of, |file| {
            self.wait(self.files.write(file, bytes.clone(), offset))
        });
        self.files.note_changed(of.id, range, written.is_err());
        written.map(|()| STORED)
    }

    fn reserve(&self, _: Place<'_>, _: Range<u64>, _: Need) -> Result<Stored> {
        Err(Error::NotSupported)
    }

    fn punch(&self, of: Place<'_>, range: Range<u64>) -> Result<Stored> {
        self.change(of, Act::Punch(extent_of(&range)))?;
        Ok(STORED)
    }

    /// Data servers that are away are fenced, and cut the file before they serve again. So the cut is stable.
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
        let synced = self.there(of, |file| {
            self.wait(self.files.sync(file)).map_err(Unsynced)
        });
        synced.map_err(|Unsynced(error)| error)
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
        let placement = self.files.view().place(id)?;
        Some(placement.encode().to_vec())
    }

    fn place_anew(&self) -> Result<PlaceAnew> {
        let driver = Arc::clone(self.files.driver()?);
        let number = self.wait(async move { driver.number_placements().await })?;
        let files = Arc::clone(&self.files);
        Ok(Box::new(move |id| {
            let placement = files.view().place(id)?;
            let placement = Placement {
                number,
                ..placement
            };
            Some(placement.encode().to_vec())
        }))
    }

    fn has_lost_part(&self, of: Place<'_>) -> bool {
        self.find(of).is_ok_and(|file| file.has_lost())
    }

    fn replace(&self, id: ObjectId) -> Result<Box<dyn Replacement>> {
        self.begin_replacing(id)
    }

    fn space(&self, own: Space) -> Space {
        self.files.space_for_contents(own)
    }
}
