//! Queries and removal of the store's own update records.

use std::collections::BTreeSet;

use vfs::{ObjectId, Result};

use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::open_store::OpenStore;
use crate::recording::{RowChange, UpdateRecord};
use crate::rows::key;

/// Records removed in one batch.
const RECORDS_A_BATCH: usize = 256;

impl OpenStore {
    /// Every object in the store's own update records after a position, removed ones too, and every file on the
    /// list of [`crate::OpenStore::unshipped`], in the order of identifiers: changes that other replicas may not have.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn changed_after(&self, position: u64) -> Result<Vec<ObjectId>> {
        self.health.check()?;
        let mut changed: BTreeSet<ObjectId> = self.unshipped.all().into_iter().collect();
        let view = self.metadata.view();
        let from = key::number(position.saturating_add(1));
        for row in view.scan(Table::Updates, &[], &from) {
            let row = row?;
            let record = UpdateRecord::decode(position, row.value())?;
            for change in &record.changes {
                changed.extend(changed_by(change)?);
            }
        }
        Ok(changed.into_iter().collect())
    }

    /// Removes update records up to this position, which are no longer needed.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn trim_updates(&self, through: u64) -> Result<()> {
        loop {
            let keys: Vec<Vec<u8>> = {
                let view = self.metadata.view();
                let rows = view.scan(Table::Updates, &[], &[]).take(RECORDS_A_BATCH);
                let keys = rows.map(|row| Ok(row?.key().to_vec()));
                keys.collect::<Result<_>>()?
            };
            let behind = key::number(through);
            let last = keys.last().is_none_or(|last| last[..] > behind[..]);
            let mut mutation = self.begin_maintenance().await?;
            for key in keys.iter().filter(|key| key[..] <= behind[..]) {
                mutation.remove_local(Table::Updates, key);
            }
            mutation.commit_local()?;
            if last {
                return Ok(());
            }
        }
    }
}

/// The object to whose version a row of a record belongs.
fn changed_by(change: &RowChange) -> std::result::Result<Option<ObjectId>, Malformed> {
    let key = &change.key;
    Ok(match Table::from_tag(change.table) {
        Some(Table::Objects) => Some(key::parse_object(key)?),
        Some(Table::Entries) => Some(key::parse_entry(key)?.0),
        Some(Table::Links) => Some(key::parse_link(key)?.0),
        Some(Table::Xattrs) => Some(key::parse_xattr(key)?.0),
        // Locks are state of clients, not part of any version.
        _ => None,
    })
}
