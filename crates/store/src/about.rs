//! What an open store says about itself.
//!
//! What must never enter: changes of the tree.

use std::sync::atomic::Ordering;

use vfs::{ReplicaSlot, Timestamp};

use crate::metadata::Table;
use crate::open_store::OpenStore;
use crate::options::TreeIdentity;
use crate::recording::UpdateRecord;
use crate::rows::key;
use crate::statistics::StoreStatistics;

impl OpenStore {
    /// What all copies of the tree have in common.
    #[must_use]
    pub fn tree(&self) -> TreeIdentity {
        self.tree
    }

    /// Gives up a little of the space that is kept back on the disk of the store, for something small that lies beside it
    /// and cannot wait until the disk is not full any more. Says whether there was any to spare: what the last removals need
    /// stays.
    #[must_use]
    pub fn give_space(&self) -> bool {
        self.headroom.give_space()
    }

    /// The place of this copy among those of the tree.
    #[must_use]
    pub fn slot(&self) -> ReplicaSlot {
        self.slot
    }

    /// The time of day by the clock that the times of objects are taken from.
    #[must_use]
    pub fn time_of_day(&self) -> Timestamp {
        self.clock.now()
    }

    /// Its metrics.
    #[must_use]
    pub fn statistics(&self) -> StoreStatistics {
        StoreStatistics {
            batches: self.statistics.batches.value(),
            group_commits: self.statistics.group_commits.value(),
            data_syncs: self.statistics.data_syncs.value(),
            bytes_read: self.statistics.bytes_read.value(),
            bytes_written: self.statistics.bytes_written.value(),
            objects: self.objects.load(Ordering::Relaxed),
            dirty_files: self.dirty.len() as u64,
            orphans: self.orphans.len() as u64,
            requests: self.series.len(),
            failed: self.health.has_failed(),
        }
    }

    /// Whether stable storage has failed because the disk was full: opened anew, the store may go on.
    #[must_use]
    pub fn has_lacked_space(&self) -> bool {
        self.health.has_lacked_space()
    }

    /// Whether fewer files can be opened than the embedded store needs, which ends when it cannot open one, or could be a moment
    /// ago: opened anew, the store may go on.
    #[must_use]
    pub fn has_lacked_descriptors(&self) -> bool {
        self.metadata.has_lacked_descriptors()
    }

    /// Update records from a position on, at most `count`. There are some for changes to which
    /// a [`crate::CommitHook`] gave a note.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when the rows cannot be read.
    pub fn updates(&self, from: u64, count: usize) -> vfs::Result<Vec<UpdateRecord>> {
        self.health.check()?;
        let view = self.metadata.view();
        let rows = view
            .scan(Table::Updates, &[], &key::number(from))
            .take(count);
        rows.map(|row| {
            let row = row?;
            let position = key::parse_number(row.key())?;
            Ok(UpdateRecord::decode(position, row.value())?)
        })
        .collect()
    }
}
