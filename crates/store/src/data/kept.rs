//! Small writes that have to be stable at once.
//!
//! Flushing a data file and flushing its name each cost a disk access, for one file at a time.
//! So the bytes of a small stable write are *kept* in the metadata store as well, in the same batch
//! as the size and the version: one flush makes all of it stable, for many files together. The data
//! file is flushed later, and then the kept bytes are removed.
//!
//! After a crash the kept bytes are written to the data file again. So every operation that makes them obsolete must
//! remove them in its own batch: a commit of later writes, a smaller size, removal.

use bytes::Bytes;
use fields::Fields;
use vfs::{ObjectId, OwnedAccessCheck, Result};

use super::contents::{Need, SyncError};
use super::dirty::Unstable;
use super::write::Region;
use crate::committer::Ticket;
use crate::maintenance::MANY_KEPT_BYTES;
use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::rows::key;
use crate::space::{Demand, ROW_BYTES};

/// Larger writes go to the data file only.
const WRITE_BYTES: usize = 16 << 10;
/// The limit for one file; a file with steady writes gets its own flushes.
const FILE_BYTES: u64 = 256 << 10;
/// The limit for all files together.
const ALL_BYTES: u64 = 64 << 20;
/// A piece is one row; a write of the largest size is one piece.
const PIECE_BYTES: usize = WRITE_BYTES;
/// Greater than the number of pieces of one write.
const PIECES: u64 = 256;
/// From this many files on, one flush of the whole file system replaces a flush of each file.
const MANY_FILES: usize = 8;
/// Files in one maintenance batch.
const FILES_A_BATCH: usize = 64;

/// One kept write: the numbers of its rows, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    first: u64,
    pieces: u64,
    pub(super) bytes: u64,
}

impl Kept {
    fn numbers(self) -> std::ops::Range<u64> {
        self.first..self.first + self.pieces
    }
}

impl OpenStore {
    /// Whether a write is small enough to be kept, and there is space for it.
    pub(super) fn can_keep(&self, id: ObjectId, length: usize) -> bool {
        length <= WRITE_BYTES
            && self
                .dirty
                .has_space(id, length as u64, FILE_BYTES, ALL_BYTES)
    }
}

impl Operation {
    /// A small write that is answered once it is stable.
    pub(super) async fn write_kept(
        &self,
        access: &OwnedAccessCheck,
        id: ObjectId,
        region: Region,
        data: Bytes,
    ) -> Result<()> {
        // Exclusive, so that writes of the same bytes are kept in the order in which they were made.
        let alone = self.guards.exclude(id).await;
        let row = self.object(id)?;
        self.check_write(access, id, &row)?;
        let space = Demand::Space(data.len() as u64 + ROW_BYTES);
        let _admission = self.admit(space)?;
        self.admit_contents(&row)?;
        let (_writing, tail_clean) = self.begin_writing(id).await?;
        if !tail_clean {
            self.cut_tail(&alone, id, row.size).await?;
        }
        if region.end > row.size {
            self.settle_cut(id).await?;
        }
        let stored = self
            .put_or_note(
                id,
                region.offset,
                data.clone(),
                Need::of(row.file()?.stored),
            )
            .await?;
        // The space was admitted together with the data.
        let mutation = self.begin_maintenance().await;
        let recorded = mutation.and_then(|mut mutation| {
            let shape = OpenStore::enter_write(&mut mutation, &access.who, id, region.end, stored)?;
            keep(&mut mutation, id, region.offset, &data);
            mutation.commit(&shape)
        });
        let ticket = recorded.inspect_err(|_| self.dirty.set_tail_clean(id, false))?;
        drop(alone);
        self.reach(ticket).await
    }
}

impl OpenStore {
    /// Removes kept writes whose data is stable in the data file. Until the ticket is stable, a crash
    /// restores them over later writes.
    pub(super) async fn release_kept(&self, id: ObjectId, kept: &[Kept]) -> Result<Ticket> {
        let mut mutation = self.begin_maintenance().await?;
        remove_rows(&mut mutation, id, kept);
        let ticket = mutation.commit_local()?;
        // Only now: a task that finds nothing kept relies on the tickets issued so far.
        self.dirty.drop_kept(id, kept);
        Ok(ticket)
    }

    /// The same for many files, for threads that may block.
    pub(crate) fn release_all_kept(&self, files: &[(ObjectId, Vec<Kept>)]) -> Result<()> {
        for group in files.chunks(FILES_A_BATCH) {
            let mut mutation = self.begin_blocking()?;
            for (id, kept) in group {
                remove_rows(&mut mutation, *id, kept);
            }
            mutation.commit_local()?;
            for (id, kept) in group {
                self.dirty.drop_kept(*id, kept);
            }
        }
        Ok(())
    }

    /// Makes the data of all files with kept writes stable and removes these writes. For the store's own
    /// threads.
    pub(crate) fn settle_kept(&self) -> Result<()> {
        let files = self.dirty.files_with_kept();
        if files.len() < MANY_FILES {
            for (id, unstable) in &files {
                self.make_stable(*id, unstable)?;
            }
        } else {
            let synced = rustix::fs::syncfs(self.directory.data());
            synced.map_err(|error| self.fail(&format!("cannot make data stable: {error}")))?;
            // A failed flush of a new directory is reported once, to the first caller that flushes it; this is
            // another flush.
            let named = match files.iter().any(|(_, unstable)| unstable.new_name) {
                true => self.files.check_names(),
                false => Ok(()),
            };
            named.map_err(|error| self.fail(&format!("cannot make names stable: {error}")))?;
            for (id, unstable) in &files {
                self.dirty.stabilised(*id, unstable);
            }
        }
        let kept: Vec<_> = files
            .into_iter()
            .map(|(id, unstable)| (id, unstable.kept))
            .collect();
        self.release_all_kept(&kept)
    }

    /// After a crash: writes the kept bytes to the data file again. Returns whether there were any.
    pub(crate) fn restore_kept(&self, mutation: &mut Mutation<'_>, id: ObjectId) -> Result<bool> {
        let view = self.metadata.view();
        let mut found_some = false;
        for found in view.scan(Table::Kept, &key::object(id), &[]) {
            let found = found?;
            let (offset, bytes) = parse_piece(found.value())?;
            if mutation.object(id).is_ok_and(|row| row.file().is_ok()) {
                self.content_of(id)?.write(bytes, offset, Need::Made)?;
            }
            mutation.remove_local(Table::Kept, found.key());
            found_some = true;
        }
        Ok(found_some)
    }
}

impl OpenStore {
    /// Waits until a data file is on stable storage, and its name if that is new.
    pub(super) fn make_stable(&self, id: ObjectId, unstable: &Unstable) -> Result<()> {
        let content = self.content_of(id)?;
        match content.sync(unstable.new_name) {
            Ok(()) => {}
            Err(SyncError::Later(error)) => return Err(error),
            Err(SyncError::Lost(why)) if content.is_elsewhere() => self.note_loss(id, &why)?,
            // Data that was reported as stable may be lost.
            Err(SyncError::Lost(why)) => {
                return Err(self.fail(&format!("cannot make data of {id} stable: {why}")));
            }
        }
        self.dirty.stabilised(id, unstable);
        self.statistics.data_syncs.add(1);
        Ok(())
    }
}

/// Adds a write to the batch, piece by piece. Row numbers derive from the ticket, so those of two writes differ.
pub(super) fn keep(mutation: &mut Mutation<'_>, id: ObjectId, offset: u64, data: &[u8]) {
    let first = mutation.ticket().0 * PIECES;
    let mut number = first;
    for (index, piece) in data.chunks(PIECE_BYTES).enumerate() {
        let place = offset + (index * PIECE_BYTES) as u64;
        let row = [&place.to_be_bytes()[..], piece].concat();
        mutation.put_local(Table::Kept, &key::kept(id, number), &row);
        number += 1;
    }
    let kept = Kept {
        first,
        pieces: number - first,
        bytes: data.len() as u64,
    };
    mutation.then(move |store, _| {
        if store.dirty.keep(id, kept) > MANY_KEPT_BYTES {
            store.tidying.nudge();
        }
    });
}

pub(crate) fn remove_rows(mutation: &mut Mutation<'_>, id: ObjectId, kept: &[Kept]) {
    for number in kept.iter().flat_map(|kept| kept.numbers()) {
        mutation.remove_local(Table::Kept, &key::kept(id, number));
    }
}

pub(super) fn parse_piece(row: &[u8]) -> std::result::Result<(u64, &[u8]), Malformed> {
    let bytes = row.get(8..).unwrap_or_default();
    let offset = Fields::new(row.get(..8).unwrap_or_default()).u64()?;
    Ok((offset, bytes))
}
