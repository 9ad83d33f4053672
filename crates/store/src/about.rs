//! Information about an open store.
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
    /// The identity that all copies of the tree share.
    #[must_use]
    pub fn tree(&self) -> TreeIdentity {
        self.tree
    }

    /// Frees a little of the reserved space on the disk of the store, for something small outside the store
    /// that cannot wait until the disk has space. Returns whether space was freed: the space for the last removals
    /// stays reserved.
    #[must_use]
    pub fn give_space(&self) -> bool {
        self.headroom.give_space()
    }

    /// The slot of this copy among the copies of the tree.
    #[must_use]
    pub fn slot(&self) -> ReplicaSlot {
        self.slot
    }

    /// The current time of the clock that sets the times of objects.
    #[must_use]
    pub fn time_of_day(&self) -> Timestamp {
        self.clock.now()
    }

    /// The metrics of the store.
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

    /// Whether stable storage has failed because the disk was full: after a restart the store may work again.
    #[must_use]
    pub fn has_lacked_space(&self) -> bool {
        self.health.has_lacked_space()
    }

    /// Whether fewer descriptors are available, or were recently, than the embedded store needs; it ends when it cannot open a
    /// file. After a restart the store may work again.
    #[must_use]
    pub fn has_lacked_descriptors(&self) -> bool {
        self.metadata.has_lacked_descriptors()
    }

    /// At most `count` update records, starting at a position. They exist for changes to which
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
