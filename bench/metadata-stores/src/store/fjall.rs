//! fjall: a log-structured merge tree behind a journal that all keyspaces share.

use std::ops::Bound;
use std::path::Path;

use anyhow::Result;
use fjall::{
    AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot,
};

use super::{Durability, Limits, Store, VisitRow, Writing};
use crate::rows::{Key, Operation};

/// Least journal size that fjall accepts; the less journal, the quicker a restart.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// fjall with all rows in one keyspace.
pub struct FjallStore {
    database: Database,
    rows: Keyspace,
    durability: Durability,
    memtable_bytes: u64,
}

impl FjallStore {
    /// Opens or creates the database in `directory`.
    pub fn open(directory: &Path, durability: Durability, limits: Limits) -> Result<Self> {
        let database = Database::builder(directory.join("fjall"))
            .cache_size(limits.cache_bytes as u64)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .worker_threads(2)
            // With explicit `persist` the journal's buffer need not be written for every batch.
            .manual_journal_persist(durability == Durability::Sync)
            .open()?;
        // The memtable is rotated by `tend`: fjall's own rotation can block its workers for ever,
        // which the `rotation` case of this program shows.
        let rows = database.keyspace("rows", || {
            KeyspaceCreateOptions::default().max_memtable_size(u64::MAX)
        })?;
        Ok(Self {
            database,
            rows,
            durability,
            memtable_bytes: limits.memtable_bytes,
        })
    }
}

impl Store for FjallStore {
    fn writing(&self) -> Writing {
        // The journal's lock is held while it becomes durable, so that clients that append for
        // themselves spend their time in the queue for that lock.
        if self.durability == Durability::Sync {
            Writing::Gathered
        } else {
            Writing::Appended
        }
    }

    fn commit(&self, operations: &[Operation]) -> Result<()> {
        for operation in operations {
            for key in &operation.reads {
                self.rows.get(key.as_bytes())?;
            }
            let mut batch = self.database.batch();
            for change in &operation.changes {
                match &change.value {
                    Some(value) => {
                        batch.insert(&self.rows, change.key.as_bytes(), value.as_slice());
                    }
                    None => batch.remove(&self.rows, change.key.as_bytes()),
                }
            }
            batch.commit()?;
        }
        Ok(())
    }

    fn persist(&self) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncData)?)
    }

    fn tend(&self) -> Result<()> {
        if self.rows.tree.active_memtable().size() > self.memtable_bytes {
            self.rows.rotate_memtable()?;
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn super::Snapshot + '_>> {
        Ok(Box::new(View {
            rows: &self.rows,
            snapshot: self.database.snapshot(),
        }))
    }
}

struct View<'s> {
    rows: &'s Keyspace,
    snapshot: Snapshot,
}

impl super::Snapshot for View<'_> {
    fn read(&self, key: &Key, visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let row = self.snapshot.get(self.rows, key.as_bytes())?;
        Ok(row.inspect(|row| visit(row)).is_some())
    }

    fn scan(&self, after: &Key, end: &Key, visit: &mut VisitRow<'_>) -> Result<()> {
        let range = (
            Bound::Excluded(after.as_bytes()),
            Bound::Excluded(end.as_bytes()),
        );
        for guard in self.snapshot.range::<&[u8], _>(self.rows, range) {
            let (key, value) = guard.into_inner()?;
            if !visit(&key, &value)? {
                break;
            }
        }
        Ok(())
    }
}
