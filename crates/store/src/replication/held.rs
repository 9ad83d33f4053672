//! Restores locks and denials after a restart, because clients of other servers do not reclaim them.
//!
//! What must never enter: whose clients hold them, and whether these still want them.

use vfs::{Error, ObjectId, Result};

use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::open_store::OpenStore;
use crate::rows::{decode_denials, decode_locks, key};

impl OpenStore {
    /// Restores the locks and denials that existed when the store was closed, no matter which replica granted them. If there
    /// are other replicas, call this once before any change. Without other replicas clients reclaim after
    /// a restart what they hold.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub async fn take_up_held(&self) -> Result<()> {
        let mut meaningless = Vec::new();
        for table in [Table::Locks, Table::Denials] {
            let view = self.metadata.view();
            for row in view.scan(table, &[], &[]) {
                let row = row?;
                if !self.take_up(table, row.key(), row.value())? {
                    meaningless.push((table, row.key().to_vec()));
                }
            }
        }
        if meaningless.is_empty() {
            return Ok(());
        }
        let mut mutation = self.begin_maintenance().await?;
        for (table, key) in meaningless {
            mutation.remove_local(table, &key);
        }
        mutation.commit_local().map(|_| ())
    }

    /// Restores one row. Returns false for a row to remove: a malformed row, or a row that was kept until now of a file that is gone or of a
    /// removed file whose home is elsewhere.
    fn take_up(&self, table: Table, key: &[u8], row: &[u8]) -> Result<bool> {
        let outcome = match key::parse_object(key) {
            Ok(id) if !self.is_decided_here(id)? => return Ok(false),
            Ok(id) => self.put_held(table, id, row),
            Err(malformed) => Err(malformed),
        };
        if let Err(Malformed(what)) = &outcome {
            tracing::error!(
                "what clients had locked of a file cannot be read and is forgotten: {what}"
            );
        }
        Ok(outcome.is_ok())
    }

    fn put_held(
        &self,
        table: Table,
        id: ObjectId,
        row: &[u8],
    ) -> std::result::Result<(), Malformed> {
        if table == Table::Locks {
            let held = decode_locks(row)?;
            let _changed = self.locks().replace(id, held);
        } else {
            let denials = decode_denials(row)?;
            let _changed = self.shares().follow(id, denials);
        }
        Ok(())
    }

    /// Whether this copy decides what clients hold of an object: the object has a name, or its home is this replica, or its home is lost.
    fn is_decided_here(&self, id: ObjectId) -> Result<bool> {
        match self.object(id) {
            Ok(row) if row.links > 0 => Ok(true),
            Ok(_) => Ok(self.orphan_is_here(id)),
            Err(Error::Stale) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
