//! Rows that only this copy keeps, for the layers above the store. Those layers define the content.

use bytes::Bytes;
use vfs::{Error, Result};

use crate::committer::Ticket;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::open_store::OpenStore;

/// Short enough that key, value length and tag together stay below the sector size, which no row may reach.
const MAX_KEY_BYTES: usize = 64;

impl OpenStore {
    /// Changes rows that only this copy keeps, for the layers above the store. Each has a key of 1 to 64 bytes and
    /// a value, or `None` to remove the row. All changes of one call are atomic; calls take effect in order.
    ///
    /// # Errors
    /// [`vfs::Error::Invalid`] when a key is too long; [`vfs::Error::Io`] when storage fails.
    pub async fn put_facts(&self, rows: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<Ticket> {
        let mut mutation = self.begin_maintenance().await?;
        mutation.enter_facts(rows)?;
        mutation.commit_local()
    }

    /// The rows of [`crate::OpenStore::put_facts`] whose keys start with `prefix`, in key order.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn facts(&self, prefix: &[u8]) -> Result<Vec<(Bytes, Bytes)>> {
        self.first_facts(prefix, usize::MAX)
    }

    /// The first of these rows, at most `most`.
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

/// The caller's value may start with any byte, but a row must not start with the byte that means a long row.
fn framed(value: &[u8]) -> Vec<u8> {
    const VERSION: u8 = 1;
    [&[VERSION], value].concat()
}
