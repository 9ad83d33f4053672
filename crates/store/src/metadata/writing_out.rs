//! Decides when rows that only memory and the journal hold are written out to tables, so that both stay bounded.
//!
//! What must never enter: what a row means.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fjall::AbstractTree;

use super::{Metadata, MetadataError};

/// New rows stay in memory up to about this size in each of the three keyspaces. Four more buffers
/// of that size can wait to be written out before writers are slowed down.
const WRITE_BUFFER_BYTES: u64 = 8 << 20;
/// While files cannot be created, up to about this many bytes of changes stay in memory before new changes are refused.
const STUCK_BYTES: u64 = 8 * WRITE_BUFFER_BYTES;
/// At most this many descriptors are needed, for a short time, to write out full buffers, merge tables and begin a journal.
const WRITING_OUT: usize = 32;
/// If the embedded store has ended, a lack of descriptors within this time counts as the cause.
const A_MOMENT: Duration = Duration::from_secs(60);
/// After this many bytes of changes a check for full write buffers is worthwhile.
const LOOK_BYTES: u64 = 2 << 20;

impl Metadata {
    /// Whether enough has changed to call [`Metadata::write_out_full`].
    pub(crate) fn should_look(&self) -> bool {
        self.unlooked_bytes.load(Ordering::Relaxed) >= LOOK_BYTES
    }

    /// Starts new write buffers for full ones, so that the full ones are written out in the background.
    /// Bounds memory and the journal. Called regularly, from a thread of the store. `has_space` says whether this many
    /// bytes fit on the disk, `has_files` whether files can be created. While they cannot, or descriptors are lacking, everything
    /// stays in memory and in the journal: the embedded store ends when it cannot open a file that it writes.
    pub(crate) fn write_out_full(
        &self,
        has_space: impl Fn(u64) -> bool,
        has_files: impl Fn() -> bool,
    ) -> Result<(), MetadataError> {
        self.unlooked_bytes.store(0, Ordering::Relaxed);
        let journal_waits = self.database.journal_count() > 2;
        let is_full = self.keyspaces_held().any(|held| held > WRITE_BUFFER_BYTES);
        if !(is_full || journal_waits) {
            return Ok(());
        }
        let can_make_files = self.has_descriptors() && has_files();
        let is_stuck = !can_make_files && self.unwritten_bytes() > STUCK_BYTES;
        self.is_stuck.store(is_stuck, Ordering::Relaxed);
        if !can_make_files {
            return Ok(());
        }
        for keyspace in [&self.objects, &self.entries, &self.others] {
            let held_bytes = keyspace.tree.active_memtable().size();
            // An old journal is removed only when every keyspace has written out its rows in it.
            let wanted = held_bytes > WRITE_BUFFER_BYTES || (journal_waits && held_bytes > 0);
            // Merging tables temporarily needs the same space again.
            if wanted && has_space(2 * held_bytes + WRITE_BUFFER_BYTES) {
                keyspace.rotate_memtable()?;
            }
        }
        Ok(())
    }

    /// Whether enough files can be opened for writing out.
    fn has_descriptors(&self) -> bool {
        let are_left = self.journals.are_left(WRITING_OUT);
        if !are_left {
            let lacked = self.lacked_descriptors.lock();
            *lacked.unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        are_left
    }

    /// Whether descriptors are lacking, or were lacking recently.
    pub(crate) fn has_lacked_descriptors(&self) -> bool {
        let lacks = !self.has_descriptors();
        let lacked = *(self.lacked_descriptors.lock()).unwrap_or_else(PoisonError::into_inner);
        lacks || lacked.is_some_and(|then| then.elapsed() < A_MOMENT)
    }

    /// Bytes of rows that only the journal and memory hold; tables will need space for them.
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        self.keyspaces_held().sum()
    }

    fn keyspaces_held(&self) -> impl Iterator<Item = u64> {
        let keyspaces = [&self.objects, &self.entries, &self.others];
        (keyspaces.into_iter()).map(|keyspace| keyspace.tree.active_memtable().size())
    }

    /// Whether changes have to wait until files can be created again, because memory holds too many.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }
}
