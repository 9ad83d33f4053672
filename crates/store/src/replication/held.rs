//! Locks and denials after a restart: as they stood, because clients of other servers do not say them again.
//!
//! What must never enter: whose clients hold them, and whether they still want them.

use vfs::{Error, ObjectId, Result};

use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::open_store::OpenStore;
use crate::rows::{decode_denials, decode_locks, key};

impl OpenStore {
    /// Takes up the locks and denials that stood when the store was closed, at whichever replica they were taken. To
    /// be called once, before anything is changed, where there are other replicas: without them clients say after
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

    /// Says whether the row means anything: the rows of files that are gone are left where they are until here, and so are those of
    /// removed files that are at home elsewhere.
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

    /// Whether what clients hold of an object counts by the own copy: it has a name, or is at home here, or has lost its home.
    fn is_decided_here(&self, id: ObjectId) -> Result<bool> {
        match self.object(id) {
            Ok(row) if row.links > 0 => Ok(true),
            Ok(_) => Ok(self.orphan_is_here(id)),
            Err(Error::Stale) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
