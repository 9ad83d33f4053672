//! Writing data.
//!
//! Order: mark the file dirty, stably; write the bytes to the data file; put the size into the
//! row; make both stable, in parallel, if requested. A crash in between leaves either bytes past the size in the
//! row, which are cut off before the file grows over them, or a row that covers missing bytes,
//! which the mark reveals.

use std::sync::Arc;

use bytes::Bytes;
use vfs::{
    AccessCheck, Credentials, Error, ObjectId, OwnedAccessCheck, Result, Stability, Written,
};

use super::contents::{Cut, Need, Stored};
use super::filled::Filled;
use super::guards::{Exclusive, Shared};
use super::{MAX_FILE_BYTES, Origin};
use crate::commit_hook::Change;
use crate::committer::Ticket;
use crate::metadata::Table;
use crate::mutation::{Mutation, Touch};
use crate::open_store::{OpenStore, blocking};
use crate::operation::Operation;
use crate::ownership::strip_set_id;
use crate::rows::ObjectRow;
use crate::space::{Demand, ROW_BYTES};

/// Writes below this size are done on the caller's thread; handing them to another thread costs more, even if
/// the data file has to be created.
const INLINE_BYTES: usize = 64 << 10;

/// The range of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) offset: u64,
    /// The offset after the last byte.
    pub(super) end: u64,
}

/// A writer of a marked file; the mark stays at least as long.
pub(super) struct Writing {
    store: Arc<OpenStore>,
    id: ObjectId,
}

impl Writing {
    /// Registers a writer of a file that has a mark.
    pub(super) fn join(store: &Arc<OpenStore>, id: ObjectId) -> Option<Writing> {
        store.dirty.join(id, true)?;
        Some(Writing {
            store: Arc::clone(store),
            id,
        })
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.store.dirty.leave(self.id);
    }
}

impl Operation {
    /// [`vfs::FileSystem::write`].
    pub(crate) async fn write(
        &self,
        check: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written> {
        let count = u32::try_from(data.len()).map_err(|_| Error::Invalid("too much data"))?;
        let end = offset
            .checked_add(u64::from(count))
            .filter(|end| *end <= MAX_FILE_BYTES);
        let end = end.ok_or(Error::TooLarge)?;
        let region = Region { offset, end };
        let access = OwnedAccessCheck::from(check);
        let keeps = stability >= Stability::Data
            && count > 0
            && self.can_keep(id, data.len())
            && !self.is_elsewhere(id)?;
        // The verifier from before the write: the client must repeat a write that is lost after this point.
        let verifier = self.verifier();
        let write = move |operation: Operation| async move {
            match keeps {
                true => operation.write_kept(&access, id, region, data).await,
                false => {
                    operation
                        .write_all(access, id, region, data, stability)
                        .await
                }
            }
        };
        self.change_data(id, write).await?;
        self.statistics.bytes_written.add(u64::from(count));
        Ok(Written {
            count,
            stability,
            verifier,
            attributes: None,
        })
    }

    async fn write_all(
        &self,
        access: OwnedAccessCheck,
        id: ObjectId,
        region: Region,
        data: Bytes,
        stability: Stability,
    ) -> Result<()> {
        let shared = self.guards.share(id).await;
        let row = self.object(id)?;
        self.check_write(&access, id, &row)?;
        let need = Need::of(row.file()?.stored);
        if data.is_empty() {
            return Ok(());
        }
        let bytes_here = match row.placement() {
            None => data.len() as u64,
            Some(_) => 0,
        };
        let space = Demand::Space(bytes_here + ROW_BYTES);
        let _admission = self.admit(space)?;
        self.admit_contents(&row)?;
        let before = self.verifier();
        let (_shared, _writing) = self.prepare_to_write(shared, id).await?;
        if region.end > row.size {
            self.settle_cut(id).await?;
        }
        let stored = self.put_or_note(id, region.offset, data, need).await?;
        let ticket = self
            .record_write(&access.who, id, region.end, stored)
            .await?;
        if stability >= Stability::Data {
            self.commits.ask_for(ticket);
            let released = self.stabilise(id).await?;
            self.commits
                .wait(ticket.max(released), &self.health)
                .await?;
            if self.verifier() != before {
                // Data was lost meanwhile, perhaps these bytes.
                return Err(Error::Delay);
            }
        }
        Ok(())
    }

    /// Records in the row that data up to `end` was written. Without this the write counts as failed.
    pub(super) async fn record_write(
        &self,
        who: &Credentials,
        id: ObjectId,
        end: u64,
        stored: Stored,
    ) -> Result<Ticket> {
        // The space was admitted together with the data.
        let mutation = self.begin_maintenance().await;
        mutation
            .and_then(|mut mutation| {
                let shape = OpenStore::enter_write(&mut mutation, who, id, end, stored)?;
                mutation.commit(&shape)
            })
            .inspect_err(|_| self.dirty.set_tail_clean(id, false))
    }
}

impl OpenStore {
    /// Fails if the file system below has no space for a new data file; an existing one needs none.
    pub(super) fn admit_contents(&self, row: &ObjectRow) -> Result<()> {
        match row.placement().is_some() || row.file()?.stored {
            true => Ok(()),
            false => self.headroom.admit_file(),
        }
    }

    /// Registers a writer: marks the file, stably, and cuts off bytes of failed writes behind its end.
    pub(super) async fn prepare_to_write(
        self: &Arc<Self>,
        shared: Shared,
        id: ObjectId,
    ) -> Result<(Shared, Writing)> {
        let (writing, tail_clean) = self.begin_writing(id).await?;
        if tail_clean {
            return Ok((shared, writing));
        }
        drop(shared);
        let alone = self.guards.exclude(id).await;
        self.cut_tail(&alone, id, self.object(id)?.size).await?;
        Ok((alone.share(), writing))
    }

    /// Registers a writer of a file and returns once its mark is stable. Also returns whether the data file
    /// is known to end where the row says.
    pub(super) async fn begin_writing(self: &Arc<Self>, id: ObjectId) -> Result<(Writing, bool)> {
        self.begin_writing_as(id, false).await
    }

    /// The same; `foreign` for data that another primary has sent.
    pub(super) async fn begin_writing_as(
        self: &Arc<Self>,
        id: ObjectId,
        foreign: bool,
    ) -> Result<(Writing, bool)> {
        let mark = match self.dirty.join(id, foreign) {
            Some(mark) => mark,
            None => self.mark_dirty(id, foreign).await?,
        };
        self.watches.disturb(id);
        let writing = Writing {
            store: Arc::clone(self),
            id,
        };
        if !mark.born_marked || self.is_elsewhere(id)? {
            self.commits.wait(mark.ticket, &self.health).await?;
        }
        Ok((writing, mark.tail_clean))
    }

    async fn mark_dirty(&self, id: ObjectId, foreign: bool) -> Result<super::dirty::Mark> {
        let mut mutation = self.begin_maintenance().await?;
        mutation.object(id)?;
        // Another task may have marked it while this one waited for the lock.
        if let Some(mark) = self.dirty.join(id, foreign) {
            return Ok(mark);
        }
        match foreign {
            true => mutation.mark_foreign(Table::Dirty, id),
            false => self.mark_own(&mut mutation, id)?,
        }
        // Content of another primary changes no version.
        mutation.unmark(Table::Digests, id);
        let origin = Origin {
            born_marked: false,
            foreign,
            elsewhere: mutation.object(id)?.placement().is_some(),
        };
        mutation.then(move |store, ticket| store.dirty.mark(id, ticket, origin, 1));
        let ticket = mutation.commit_local()?;
        Ok(super::dirty::Mark {
            ticket,
            born_marked: false,
            tail_clean: self.dirty.tail_is_clean(id),
        })
    }

    /// Marks a file for a local write. If the file was unmarked and has a data file, that data file exists permanently.
    pub(super) fn mark_own(&self, mutation: &mut Mutation<'_>, id: ObjectId) -> Result<()> {
        let row = mutation.object(id)?;
        let has_file = row.placement().is_none() && row.file().is_ok_and(|file| file.stored);
        let stored = has_file && !self.dirty.contains(id);
        mutation.mark_dirty(id, stored);
        Ok(())
    }

    /// Removes bytes of the data file behind the size in the row. Needs the exclusive guard.
    pub(crate) async fn cut_tail(
        self: &Arc<Self>,
        _alone: &Exclusive,
        id: ObjectId,
        size: u64,
    ) -> Result<()> {
        let store = Arc::clone(self);
        blocking(move || store.cut_contents(id, size)).await?;
        self.dirty.set_tail_clean(id, true);
        Ok(())
    }

    /// Cuts the contents to at most `size`; returns whether there are any contents.
    pub(crate) fn cut_contents(&self, id: ObjectId, size: u64) -> Result<bool> {
        let cut = self.content_of(id)?.cut(size)?;
        if cut == Cut::Shortened {
            self.dirty.cut(id);
        }
        Ok(cut != Cut::Absent)
    }

    /// Writes bytes to the data file; notes that a failure may have left some behind.
    pub(super) async fn put_or_note(
        self: &Arc<Self>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        need: Need,
    ) -> Result<Stored> {
        if self.content_to_change(id)?.is_elsewhere() {
            let outcome = self.put_bytes(id, offset, data, need).await;
            self.dirty.changed(id, false);
            return outcome.inspect_err(|_| self.dirty.set_tail_clean(id, false));
        }
        let filled = Filled::by(offset, data.len());
        let Some(filled) = filled else {
            return Err(Error::Invalid("nothing is to be written"));
        };
        if self.needs_check(id, &filled) {
            let store = Arc::clone(self);
            let checked = Filled::by(offset, data.len());
            blocking(move || checked.map_or(Ok(()), |checked| store.check_edges(id, &checked)))
                .await?;
        }
        let entry = self.open_sums.begin(id, filled.blocks.clone());
        // By now an earlier writer has recorded the data file in the row, or the block is open.
        let zeros_follow = entry.last_is_new && !self.object(id)?.file()?.stored;
        let outcome = self.put_bytes(id, offset, data.clone(), need).await;
        if outcome.is_ok() && self.open_sums.are_made() {
            let (first, sums) = filled.sums(&data, zeros_follow);
            entry.written(first, &sums);
        } else {
            drop(entry);
        }
        let made = outcome.as_ref().map_or(true, |stored| stored.made);
        self.dirty.changed(id, made);
        outcome.inspect_err(|_| self.dirty.set_tail_clean(id, false))
    }

    /// Writes to the contents.
    async fn put_bytes(
        self: &Arc<Self>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        need: Need,
    ) -> Result<Stored> {
        if data.len() < INLINE_BYTES
            && let Some(stored) =
                (self.content_to_change(id)?).write_at_hand(&data, offset, need)?
        {
            return Ok(stored);
        }
        let store = Arc::clone(self);
        blocking(move || store.content_to_change(id)?.write(&data, offset, need)).await
    }

    /// The same as part of a batch.
    pub(super) fn enter_write(
        mutation: &mut Mutation<'_>,
        who: &Credentials,
        id: ObjectId,
        end: u64,
        stored: Stored,
    ) -> Result<Change> {
        let shape = Change::Data(mutation.touched(id)?);
        mutation.touch(id, Touch::Content)?;
        mutation.change_data(id);
        let row = mutation.object_mut(id)?;
        row.forget_verifier();
        row.file_mut()?.stored |= stored.exists;
        row.size = row.size.max(end);
        row.space_used = match row.placement() {
            None => stored.space_used,
            Some(_) => row.size.next_multiple_of(512),
        };
        if !who.is_root() {
            row.mode = strip_set_id(row.mode, who.is_member(row.group));
        }
        Ok(shape)
    }
}
