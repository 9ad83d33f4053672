//! Small writes that have to be stable at once.
//!
//! Waiting for a data file and for its name costs a trip to the disk each, for one file at a time.
//! So the bytes of a small stable write are *kept* in the metadata store as well, in the same batch
//! as the size and the version: one trip makes all of it stable, for many files together. The data
//! file is made stable later, and then the kept bytes go.
//!
//! After a crash the kept bytes are written to the data file again. So whatever makes them wrong has to
//! remove them in the batch that makes it stable: a commit of later writes, a smaller size, removal.

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

/// Larger writes go to the data file alone.
const WRITE_BYTES: usize = 16 << 10;
/// Of one file; what is written steadily gets its own trips to the disk.
const FILE_BYTES: u64 = 256 << 10;
/// Of all files together.
const ALL_BYTES: u64 = 64 << 20;
/// A write is one row.
const PIECE_BYTES: usize = WRITE_BYTES;
/// More pieces than one write can have.
const PIECES: u64 = 256;
/// From this many files on, the whole file system is made stable instead of one after the other.
const MANY_FILES: usize = 8;
/// Files in one batch of maintenance.
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
    /// A small write that is answered when it is stable.
    pub(super) async fn write_kept(
        &self,
        access: &OwnedAccessCheck,
        id: ObjectId,
        region: Region,
        data: Bytes,
    ) -> Result<()> {
        // Alone, so that writes of the same bytes are kept in the order in which they were made.
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
        // Admitted together with the data.
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
    /// Removes kept writes whose data is stable where it belongs. Until the ticket is stable, a crash
    /// brings them back over whatever was written later.
    pub(super) async fn release_kept(&self, id: ObjectId, kept: &[Kept]) -> Result<Ticket> {
        let mut mutation = self.begin_maintenance().await?;
        remove_rows(&mut mutation, id, kept);
        let ticket = mutation.commit_local()?;
        // Only now: who finds nothing kept relies on the tickets given out so far.
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

    /// Makes the data of all files with kept writes stable and removes these. For a thread of the store's
    /// own.
    pub(crate) fn settle_kept(&self) -> Result<()> {
        let files = self.dirty.files_with_kept();
        if files.len() < MANY_FILES {
            for (id, unstable) in &files {
                self.make_stable(*id, unstable)?;
            }
        } else {
            let synced = rustix::fs::syncfs(self.directory.data());
            synced.map_err(|error| self.fail(&format!("cannot make data stable: {error}")))?;
            // A failure of a new directory is reported once, to the first caller that flushes it; this is
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

    /// After a crash: writes what was kept to the data file again. Returns whether there was something.
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
    /// Waits until a data file, and its name if that is new, are on stable storage.
    pub(super) fn make_stable(&self, id: ObjectId, unstable: &Unstable) -> Result<()> {
        let content = self.content_of(id)?;
        match content.sync(unstable.new_name) {
            Ok(()) => {}
            Err(SyncError::Later(error)) => return Err(error),
            Err(SyncError::Lost(why)) if content.is_elsewhere() => self.note_loss(id, &why)?,
            // Nothing that was answered can be relied on any more.
            Err(SyncError::Lost(why)) => {
                return Err(self.fail(&format!("cannot make data of {id} stable: {why}")));
            }
        }
        self.dirty.stabilised(id, unstable);
        self.statistics.data_syncs.add(1);
        Ok(())
    }
}

/// Puts a write into the batch, piece by piece. Tickets number batches, so no two writes meet.
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
