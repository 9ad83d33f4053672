//! The narrow face through which every candidate is measured.
//!
//! It offers what the local replica store needs and nothing that only one candidate has.

mod fjall;
mod lmdb;
mod redb;

use std::path::Path;

use anyhow::Result;

use crate::rows::{Key, Operation};

/// When an operation may be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// After it is on stable storage.
    Sync,
    /// At once; stable storage follows within about a second.
    Async,
}

/// Sizes a candidate is opened with.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Bytes of the store's own cache of disk blocks. LMDB has none and ignores it.
    pub cache_bytes: usize,
    /// Bytes of new rows that an LSM store gathers in memory before it writes a table.
    pub memtable_bytes: u64,
}

impl Limits {
    /// What a server on a small machine would be given.
    pub const SMALL: Self = Self {
        cache_bytes: 64 << 20,
        memtable_bytes: 16 << 20,
    };
    /// A cache that holds the whole data set of these measurements.
    pub const LARGE: Self = Self {
        cache_bytes: 1 << 30,
        memtable_bytes: 16 << 20,
    };
    /// So small that a crash test meets flushes, compactions and journal changes all the time.
    pub const TINY: Self = Self {
        cache_bytes: 8 << 20,
        memtable_bytes: 256 << 10,
    };
}

/// Which thread carries out operations when many clients write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// Every client appends for itself; one thread makes the journal durable for all.
    Appended,
    /// One thread carries out everybody's operations in one transaction.
    Gathered,
}

/// A candidate, open.
pub trait Store: Send + Sync {
    /// The quickest way for operations of many clients to reach this store.
    fn writing(&self) -> Writing;

    /// Carries out operations in order, each of them whole; all are visible on return.
    fn commit(&self, operations: &[Operation]) -> Result<()>;

    /// Returns when everything committed before the call is on stable storage.
    fn persist(&self) -> Result<()>;

    /// Work that the committing thread does between groups, such as bounding memory.
    fn tend(&self) -> Result<()> {
        Ok(())
    }

    /// A consistent view for one operation that reads.
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>>;
}

/// A consistent view of all rows.
pub trait Snapshot {
    /// Shows the row at `key` to `visit`, and says whether there was one.
    fn read(&self, key: &Key, visit: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Shows rows from `after` (excluded) to `end` (excluded) until `visit` returns false.
    fn scan(&self, after: &Key, end: &Key, visit: &mut VisitRow<'_>) -> Result<()>;
}

/// Gets key and value of a row, and says whether it wants the next.
pub type VisitRow<'v> = dyn FnMut(&[u8], &[u8]) -> Result<bool> + 'v;

/// The candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// fjall, all rows in one keyspace.
    Fjall,
    /// LMDB through heed.
    Lmdb,
    /// redb.
    Redb,
}

impl Kind {
    /// Every candidate, in the order of the table's columns.
    pub const ALL: [Self; 3] = [Self::Fjall, Self::Lmdb, Self::Redb];

    /// The name used on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fjall => "fjall",
            Self::Lmdb => "lmdb",
            Self::Redb => "redb",
        }
    }

    /// The candidate called `name`.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| {
                anyhow::anyhow!("no store is called {name:?}; choose fjall, lmdb or redb")
            })
    }

    /// Opens the store in `directory`, creating it when there is none.
    pub fn open(
        self,
        directory: &Path,
        durability: Durability,
        limits: Limits,
    ) -> Result<Box<dyn Store>> {
        std::fs::create_dir_all(directory)?;
        Ok(match self {
            Self::Fjall => Box::new(fjall::FjallStore::open(directory, durability, limits)?),
            Self::Lmdb => Box::new(lmdb::LmdbStore::open(directory, durability)?),
            Self::Redb => Box::new(redb::RedbStore::open(directory, durability, limits)?),
        })
    }
}
