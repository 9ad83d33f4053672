//! LMDB through heed: a copy-on-write B+tree in a memory map.

use std::ops::Bound;
use std::path::Path;

use anyhow::{Context, Result};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithTls};

use super::{Durability, Snapshot, Store, VisitRow, Writing};
use crate::rows::{Key, Operation};

/// Address space of the map, which is also the most the file may grow to.
const MAP_BYTES: usize = 8 << 30;

/// An LMDB environment with one database.
pub struct LmdbStore {
    environment: Env<WithTls>,
    rows: Database<'static, Bytes, Bytes>,
}

impl LmdbStore {
    /// Opens or creates the environment in `directory`.
    #[allow(unsafe_code)]
    pub fn open(directory: &Path, durability: Durability) -> Result<Self> {
        let path = directory.join("lmdb");
        std::fs::create_dir_all(&path)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        if durability == Durability::Async {
            // SAFETY: without synchronisation a power failure may corrupt the file, which this
            // measurement accepts; a killed process cannot, because the page cache survives it.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: the directory belongs to this measurement, so that nobody else changes the
        // mapped file, and one process opens it at a time.
        let environment = unsafe { options.open(&path) }?;
        let transaction = environment.write_txn()?;
        let rows = environment
            .create_databases_and_commit(transaction, |opener, transaction| {
                opener
                    .create_database(transaction, None)
                    .map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Self { environment, rows })
    }
}

impl Store for LmdbStore {
    fn writing(&self) -> Writing {
        Writing::Gathered
    }

    fn commit(&self, operations: &[Operation]) -> Result<()> {
        let mut transaction = self.environment.write_txn()?;
        for operation in operations {
            for key in &operation.reads {
                self.rows.get(&transaction, key.as_bytes())?;
            }
            for change in &operation.changes {
                let key = change.key.as_bytes();
                match &change.value {
                    Some(value) => self.rows.put(&mut transaction, key, value)?,
                    None => {
                        self.rows.delete(&mut transaction, key)?;
                    }
                }
            }
        }
        transaction.commit().context("LMDB could not commit")
    }

    fn persist(&self) -> Result<()> {
        // A commit is already durable unless NO_SYNC was asked for; then this costs one fsync.
        if self
            .environment
            .flags()?
            .is_some_and(|flags| flags.contains(EnvFlags::NO_SYNC))
        {
            self.environment.force_sync()?;
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(View {
            rows: self.rows,
            transaction: self.environment.read_txn()?,
        }))
    }
}

struct View<'s> {
    rows: Database<'static, Bytes, Bytes>,
    transaction: RoTxn<'s, WithTls>,
}

impl Snapshot for View<'_> {
    fn read(&self, key: &Key, visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let row = self.rows.get(&self.transaction, key.as_bytes())?;
        Ok(row.inspect(|row| visit(row)).is_some())
    }

    fn scan(&self, after: &Key, end: &Key, visit: &mut VisitRow<'_>) -> Result<()> {
        let range = (
            Bound::Excluded(after.as_bytes()),
            Bound::Excluded(end.as_bytes()),
        );
        for row in self.rows.range(&self.transaction, &range)? {
            let (key, value) = row?;
            if !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }
}
