//! Reading data, and finding data and holes.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::SeekFrom;
use rustix::io::{Errno, ReadWriteFlags};
use vfs::{Authority, Error, ObjectId, ReadData, Result, SeekTarget};

use super::verify::Around;
use crate::access::Access;
use crate::error::from_os;
use crate::inner::{Inner, blocking};

impl Inner {
    /// [`vfs::FileSystem::read`].
    pub(crate) async fn read(
        self: &Arc<Self>,
        authority: Authority<'_>,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadData> {
        let shared = self.guards.share(id).await;
        let row = self.object(id)?;
        self.check_read(&Access::from(authority), id, &row)?;
        self.check_untorn(id)?;
        self.check_undamaged(id)?;
        let left = row.size.saturating_sub(offset);
        let length = left.min(u64::from(count));
        let bytes = match row.file()?.stored && length > 0 {
            true => {
                let around = Around::new(offset, length as usize, row.size);
                self.bytes_at(id, around, (offset, length as usize)).await?
            }
            false => Bytes::from(vec![0; length as usize]),
        };
        drop(shared);
        self.statistics.bytes_read.add(length);
        if count > 0 {
            self.note_access(id, &row)?;
        }
        Ok(ReadData {
            bytes,
            end_of_file: length == left,
        })
    }

    /// Bytes of a data file as they were written; zeros where it has a hole or has ended.
    async fn bytes_at(
        self: &Arc<Self>,
        id: ObjectId,
        around: Around,
        (offset, length): (u64, usize),
    ) -> Result<Bytes> {
        let failed = |error: io::Error| from_os("read data", &error);
        let mut buffer = self.buffers.take(around.length);
        let (mut done, mut cached) = (0, None);
        if let Some(file) = self.files.open_already(id) {
            match read_cached(&file, buffer.space(), around.start).map_err(failed)? {
                Cached::All(count) => cached = Some(count),
                Cached::Only(count) => done = count,
            }
        }
        if let Some(count) = cached {
            let bytes = buffer.finish(count);
            if self.changed_in(id, around.start, &bytes)?.is_none() {
                return Ok(around.part(&bytes));
            }
            let inner = Arc::clone(self);
            return blocking(move || inner.read_verified(id, offset, length)).await;
        }
        let inner = Arc::clone(self);
        blocking(move || {
            let file = inner.stored_file(id)?;
            let rest = &mut buffer.space()[done..];
            done += read_rest(&file, rest, around.start + done as u64).map_err(failed)?;
            let bytes = buffer.finish(done);
            match inner.changed_in(id, around.start, &bytes)? {
                None => Ok(around.part(&bytes)),
                Some(_) => inner.read_verified(id, offset, length),
            }
        })
        .await
    }

    /// The data file of a row that says there is one. Where it is gone, nobody may take it for a hole.
    pub(crate) fn stored_file(&self, id: ObjectId) -> Result<Arc<File>> {
        let file = self.files.existing(id);
        let file = file.map_err(|error| from_os("open data", &error))?;
        file.ok_or_else(|| Error::Io(format!("the data file of object {id} is missing")))
    }

    /// [`vfs::FileSystem::seek`].
    pub(crate) async fn seek(
        self: &Arc<Self>,
        authority: Authority<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>> {
        let _shared = self.guards.share(id).await;
        let row = self.object(id)?;
        self.check_read(&Access::from(authority), id, &row)?;
        self.check_untorn(id)?;
        if offset >= row.size {
            return Err(Error::NotFound);
        }
        let stored = row.file()?.stored;
        let inner = Arc::clone(self);
        let found = blocking(move || match stored {
            true => seek_in(&*inner.stored_file(id)?, offset, target),
            false => Ok(None),
        })
        .await?;
        Ok(match target {
            // What lies behind the size, or behind the data file, is no data.
            SeekTarget::Data => found.filter(|data| *data < row.size),
            SeekTarget::Hole => Some(found.unwrap_or(offset).min(row.size)),
        })
    }
}

/// How much of a read the page cache could answer.
enum Cached {
    /// All of it, so many bytes, up to the end of the data file.
    All(usize),
    /// This many bytes, and the disk has more.
    Only(usize),
}

/// Reads what is in memory, without waiting for the disk.
fn read_cached(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Cached> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut [IoSliceMut::new(&mut buffer[done..])];
        let position = offset + done as u64;
        match rustix::io::preadv2(file.as_fd(), rest, position, ReadWriteFlags::NOWAIT) {
            Ok(0) => return Ok(Cached::All(done)),
            Ok(count) => done += count,
            // The disk is needed, or the file system cannot tell: let another thread wait for it.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => return Ok(Cached::Only(done)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(Cached::All(done))
}

/// Fills a buffer as far as the data file goes. Returns how far that is.
pub(crate) fn read_rest(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
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

/// The next data or hole of a data file. `None` when the file ends before.
pub(crate) fn seek_in(file: &File, offset: u64, target: SeekTarget) -> Result<Option<u64>> {
    let target = match target {
        SeekTarget::Data => SeekFrom::Data(offset),
        SeekTarget::Hole => SeekFrom::Hole(offset),
    };
    match rustix::fs::seek(file.as_fd(), target) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(from_os("seek", &errno.into())),
    }
}
