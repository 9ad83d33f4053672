//! Rows that only this copy keeps, for those above the store: their tables, not ours.

use bytes::Bytes;
use vfs::{Error, Result};

use crate::committer::Ticket;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::open_store::OpenStore;

/// With the value's length and a tag it stays below the sector that no row may fill.
const MAX_KEY_BYTES: usize = 64;

impl OpenStore {
    /// Changes rows that only this copy keeps, for those above the store: each a key of 1 to 64 bytes and
    /// a value, or `None` for a row to remove. All of one call happen together; calls in order.
    ///
    /// # Errors
    /// [`vfs::Error::Invalid`] for a key too long; [`vfs::Error::Io`] when storage fails.
    pub async fn put_facts(&self, rows: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<Ticket> {
        let mut mutation = self.begin_maintenance().await?;
        mutation.enter_facts(rows)?;
        mutation.commit_local()
    }

    /// The rows of [`crate::OpenStore::put_facts`] whose keys start with `prefix`, in the order of keys.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn facts(&self, prefix: &[u8]) -> Result<Vec<(Bytes, Bytes)>> {
        self.first_facts(prefix, usize::MAX)
    }

    /// The first of them, at most `most`.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn first_facts(&self, prefix: &[u8], most: usize) -> Result<Vec<(Bytes, Bytes)>> {
        self.health.check()?;
        let view = self.metadata.view();
        let rows = view.scan(Table::Facts, prefix, &[]);
        rows.take(most)
            .map(|row| {
                let row = row?;
                let value = row.value().get(1..).unwrap_or_default();
                Ok((
                    Bytes::copy_from_slice(row.key()),
                    Bytes::copy_from_slice(value),
                ))
            })
            .collect()
    }
}

impl Mutation<'_> {
    pub(crate) fn enter_facts(&mut self, rows: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<()> {
        let fits = |key: &[u8]| (1..=MAX_KEY_BYTES).contains(&key.len());
        if !rows.iter().all(|(key, _)| fits(key)) {
            return Err(Error::Invalid("a key of 1 to 64 bytes is needed"));
        }
        for (key, value) in rows {
            match value {
                Some(value) => self.put_local(Table::Facts, &key, &framed(&value)),
                None => self.remove_local(Table::Facts, &key),
            }
        }
        Ok(())
    }
}

/// Values of others may start with any byte, but rows of ours never with one that means a long row.
fn framed(value: &[u8]) -> Vec<u8> {
    const VERSION: u8 = 1;
    [&[VERSION], value].concat()
}
