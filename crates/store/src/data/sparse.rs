//! Contents in sparse files of the local file system, one for each object (`files`).

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use plain_file::lacks_descriptors;
use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use vfs::{Error, ObjectId, Result, SeekTarget};

use super::contents::{AtHand, Contents, Cut, Holey, Need, Place, Stored, SyncError};
use super::files::{DataFiles, Opened};
use crate::error::from_os;

impl Contents for DataFiles {
    fn read_at_hand(&self, of: Place<'_>, buffer: &mut [u8], offset: u64) -> Result<AtHand> {
        match self.open_already(of.id) {
            Some(file) => {
                read_cached(&file, buffer, offset).map_err(|error| from_os("read data", &error))
            }
            None => Ok(AtHand::Only(0)),
        }
    }

    fn read(&self, of: Place<'_>, buffer: &mut [u8], offset: u64) -> Result<usize> {
        Holey::read(&*self.stored(of.id)?, buffer, offset)
    }

    fn seek(&self, of: Place<'_>, offset: u64, target: SeekTarget) -> Result<Option<u64>> {
        Holey::seek(&*self.stored(of.id)?, offset, target)
    }

    fn write_at_hand(
        &self,
        of: Place<'_>,
        bytes: &[u8],
        offset: u64,
        need: Need,
    ) -> Result<Option<Stored>> {
        let opened = self.at_hand(of.id, need == Need::Made);
        let put = opened.and_then(|opened| {
            let done = opened.map(|one| self.put(&one, bytes, offset));
            done.transpose()
        });
        put.map_err(|error| from_os("write data", &error))
    }

    fn write(&self, of: Place<'_>, bytes: &[u8], offset: u64, need: Need) -> Result<Stored> {
        let opened = self.needed(of.id, need)?;
        let put = self.put(&opened, bytes, offset);
        put.map_err(|error| from_os("write data", &error))
    }

    fn reserve(&self, of: Place<'_>, range: Range<u64>, need: Need) -> Result<Stored> {
        self.allocate(&self.needed(of.id, need)?, range, FallocateFlags::empty())
    }

    fn punch(&self, of: Place<'_>, range: Range<u64>) -> Result<Stored> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.allocate(&self.needed(of.id, Need::Existing)?, range, flags)
    }

    fn cut(&self, of: Place<'_>, size: u64) -> Result<Cut> {
        let cut = || -> io::Result<Cut> {
            let Some(file) = self.existing(of.id)? else {
                return Ok(Cut::Absent);
            };
            if file.metadata()?.len() <= size {
                return Ok(Cut::Unchanged);
            }
            file.set_len(size)?;
            Ok(Cut::Shortened)
        };
        cut().map_err(|error| from_os("cut a data file", &error))
    }

    fn make(&self, of: Place<'_>) -> Result<bool> {
        let made = self.made(of.id).map(|opened| opened.made);
        made.map_err(|error| from_os("make a data file", &error))
    }

    fn occupied(&self, of: Place<'_>) -> Result<u64> {
        let found = self.stored(of.id)?.metadata();
        let found = found.map_err(|error| from_os("look at data", &error))?;
        Ok(bytes_of(&found))
    }

    fn sync(&self, of: Place<'_>, is_new: bool) -> std::result::Result<(), SyncError> {
        let sync = || -> io::Result<()> {
            if let Some(file) = self.existing(of.id)? {
                file.sync_data()?;
                if is_new {
                    self.sync_name(of.id)?;
                }
            }
            Ok(())
        };
        sync().map_err(|error| match lacks_descriptors(&error) {
            // No flush was attempted.
            true => SyncError::Later(from_os("make data stable", &error)),
            // After a failed sync the kernel may have dropped the data and report success the next time.
            false => SyncError::Lost(error.to_string()),
        })
    }

    fn remove(&self, of: Place<'_>) -> Result<()> {
        let removed = self.remove_file(of.id);
        removed.map_err(|error| from_os("remove a data file", &error))
    }

    fn forget_cached(&self, of: Place<'_>) {
        if let Some(file) = self.open_already(of.id) {
            file.forget_cached();
        }
    }

    fn as_file(&self, of: Place<'_>) -> Result<Option<Arc<File>>> {
        self.existing_file(of.id)
    }
}

impl DataFiles {
    /// The data file of a row that says there is one. If it is missing, that is an error and not a hole.
    fn stored(&self, id: ObjectId) -> Result<Arc<File>> {
        let missing = || {
            let place = self.layout.data_file(id);
            Error::Io(format!(
                "the data file of object {id} is missing: {}",
                place.display()
            ))
        };
        self.existing_file(id)?.ok_or_else(missing)
    }

    fn existing_file(&self, id: ObjectId) -> Result<Option<Arc<File>>> {
        let file = self.existing(id);
        file.map_err(|error| from_os("open data", &error))
    }

    fn needed(&self, id: ObjectId, need: Need) -> Result<Opened> {
        match need {
            Need::Made => (self.made(id)).map_err(|error| from_os("write data", &error)),
            Need::Existing => Ok(Opened {
                file: self.stored(id)?,
                made: false,
            }),
        }
    }

    fn allocate(
        &self,
        opened: &Opened,
        range: Range<u64>,
        flags: FallocateFlags,
    ) -> Result<Stored> {
        let length = range.end - range.start;
        let done = rustix::fs::fallocate(opened.file.as_fd(), flags, range.start, length);
        let stored = done.map_err(io::Error::from).and_then(|()| stored(opened));
        stored.map_err(|error| from_os("allocate", &error))
    }
}

impl DataFiles {
    fn put(&self, opened: &Opened, bytes: &[u8], offset: u64) -> io::Result<Stored> {
        if self.allocates_ahead {
            allocate_extension(&opened.file, offset, bytes.len() as u64)?;
        }
        opened.file.write_all_at(bytes, offset)?;
        stored(opened)
    }
}

/// Allocates the range by which a write will extend a file. Otherwise, when a write extends a file, XFS allocates as much again as the
/// file already has, and counts that as used while the file is open. Many writers would use up the reserve, and users
/// would see files that take twice their space.
fn allocate_extension(file: &File, offset: u64, length: u64) -> io::Result<()> {
    if length == 0 || file.metadata()?.len() >= offset + length {
        return Ok(());
    }
    let allocated = || rustix::fs::fallocate(file, FallocateFlags::empty(), offset, length);
    rustix::io::retry_on_intr(allocated).map_err(io::Error::from)
}

impl Holey for File {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        read_rest(self, buffer, offset).map_err(|error| from_os("read data", &error))
    }

    fn seek(&self, offset: u64, target: SeekTarget) -> Result<Option<u64>> {
        let target = match target {
            SeekTarget::Data => SeekFrom::Data(offset),
            SeekTarget::Hole => SeekFrom::Hole(offset),
        };
        match rustix::fs::seek(self.as_fd(), target) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(from_os("seek", &errno.into())),
        }
    }

    fn forget_cached(&self) {
        // If that fails, the next read may come from memory.
        let _dropped = rustix::fs::fadvise(self.as_fd(), 0, None, Advice::DontNeed);
    }
}

/// Reads what is in memory, without waiting for the disk.
fn read_cached(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<AtHand> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut [IoSliceMut::new(&mut buffer[done..])];
        let position = offset + done as u64;
        match rustix::io::preadv2(file.as_fd(), rest, position, ReadWriteFlags::NOWAIT) {
            Ok(0) => return Ok(AtHand::All(done)),
            Ok(count) => done += count,
            // The disk is needed, or the file system cannot tell: another thread has to wait for it.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => return Ok(AtHand::Only(done)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(AtHand::All(done))
}

/// Fills a buffer up to the end of the data file. Returns the number of bytes.
fn read_rest(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The state of a data file now.
fn stored(opened: &Opened) -> io::Result<Stored> {
    Ok(Stored {
        exists: true,
        space_used: bytes_of(&opened.file.metadata()?),
        made: opened.made,
    })
}

/// POSIX counts blocks of 512 bytes here, independent of the file system's block size.
fn bytes_of(found: &std::fs::Metadata) -> u64 {
    found.blocks().saturating_mul(512)
}
