//! redb: a copy-on-write B+tree with checksums, in safe Rust.

use std::ops::Bound;
use std::path::Path;

use anyhow::Result;
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Durability, Limits, Snapshot, Store, VisitRow, Writing};
use crate::rows::{Key, Operation};

const ROWS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("rows");

/// A redb database with one table.
pub struct RedbStore {
    database: Database,
    durability: Durability,
}

impl RedbStore {
    /// Opens or creates the database in `directory`, repairing it if need be.
    pub fn open(directory: &Path, durability: Durability, limits: Limits) -> Result<Self> {
        let database = Database::builder()
            .set_cache_size(limits.cache_bytes)
            .create(directory.join("rows.redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(ROWS)?;
        transaction.commit()?;
        Ok(Self {
            database,
            durability,
        })
    }
}

impl Store for RedbStore {
    fn writing(&self) -> Writing {
        Writing::Gathered
    }

    fn commit(&self, operations: &[Operation]) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        if self.durability == Durability::Async {
            transaction.set_durability(redb::Durability::None)?;
        }
        {
            let mut rows = transaction.open_table(ROWS)?;
            for operation in operations {
                for key in &operation.reads {
                    rows.get(key.as_bytes())?;
                }
                for change in &operation.changes {
                    let key = change.key.as_bytes();
                    match &change.value {
                        Some(value) => drop(rows.insert(key, value.as_slice())?),
                        None => drop(rows.remove(key)?),
                    }
                }
            }
        }
        Ok(transaction.commit()?)
    }

    fn persist(&self) -> Result<()> {
        // An empty durable transaction carries the earlier, not yet durable ones with it.
        if self.durability == Durability::Async {
            self.database.begin_write()?.commit()?;
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(View {
            rows: self.database.begin_read()?.open_table(ROWS)?,
        }))
    }
}

struct View {
    rows: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Snapshot for View {
    fn read(&self, key: &Key, visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let row = self.rows.get(key.as_bytes())?;
        Ok(row.inspect(|row| visit(row.value())).is_some())
    }

    fn scan(&self, after: &Key, end: &Key, visit: &mut VisitRow<'_>) -> Result<()> {
        let range = (
            Bound::Excluded(after.as_bytes()),
            Bound::Excluded(end.as_bytes()),
        );
        for row in self.rows.range::<&[u8]>(range)? {
            let (key, value) = row?;
            if !visit(key.value(), value.value())? {
                break;
            }
        }
        Ok(())
    }
}
