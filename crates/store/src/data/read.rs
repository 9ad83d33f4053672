//! Reading data, and finding data and holes.

use std::sync::Arc;

use bytes::Bytes;
use vfs::{AccessCheck, Error, ObjectId, OwnedAccessCheck, ReadData, Result, SeekTarget};

use super::contents::{AtHand, Holey};
use super::verify::Around;
use crate::open_store::{OpenStore, blocking};

impl OpenStore {
    /// [`vfs::FileSystem::read`].
    pub(crate) async fn read(
        self: &Arc<Self>,
        check: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadData> {
        let shared = self.guards.share(id).await;
        let row = self.object(id)?;
        self.check_read(&OwnedAccessCheck::from(check), id, &row)?;
        self.check_untorn(id)?;
        self.check_undamaged(id)?;
        let left = row.size.saturating_sub(offset);
        let length = left.min(u64::from(count));
        let bytes = match row.file()?.stored && length > 0 {
            true => {
                let around = match row.placement() {
                    None => Around::new(offset, length as usize, row.size),
                    // There are no checksums, so no whole blocks are needed.
                    Some(_) => Around::exactly(offset, length as usize),
                };
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

    /// Bytes of a data file as written; zeros in holes and after its end.
    async fn bytes_at(
        self: &Arc<Self>,
        id: ObjectId,
        around: Around,
        (offset, length): (u64, usize),
    ) -> Result<Bytes> {
        let mut buffer = self.buffers.take(around.length);
        let content = self.content_of(id)?;
        let mut done = match content.read_at_hand(buffer.space(), around.start)? {
            AtHand::Only(done) => done,
            AtHand::All(count) => {
                let bytes = buffer.finish(count);
                if self.changed_in(id, around.start, &bytes)?.is_none() {
                    return Ok(around.part(&bytes));
                }
                let store = Arc::clone(self);
                return blocking(move || store.read_verified(id, offset, length)).await;
            }
        };
        let store = Arc::clone(self);
        blocking(move || {
            let rest = &mut buffer.space()[done..];
            done += (store.content_of(id)?).read(rest, around.start + done as u64)?;
            let bytes = buffer.finish(done);
            match store.changed_in(id, around.start, &bytes)? {
                None => Ok(around.part(&bytes)),
                Some(_) => store.read_verified(id, offset, length),
            }
        })
        .await
    }

    /// [`vfs::FileSystem::seek`].
    pub(crate) async fn seek(
        self: &Arc<Self>,
        check: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>> {
        let _shared = self.guards.share(id).await;
        let row = self.object(id)?;
        self.check_read(&OwnedAccessCheck::from(check), id, &row)?;
        self.check_untorn(id)?;
        if offset >= row.size {
            return Err(Error::NotFound);
        }
        let stored = row.file()?.stored;
        let store = Arc::clone(self);
        let found = blocking(move || match stored {
            true => store.content_of(id)?.seek(offset, target),
            false => Ok(None),
        })
        .await?;
        Ok(match target {
            // Bytes behind the size, or behind the end of the data file, are not data.
            SeekTarget::Data => found.filter(|data| *data < row.size),
            SeekTarget::Hole => Some(found.unwrap_or(offset).min(row.size)),
        })
    }
}
