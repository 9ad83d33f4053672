//! Making data stable: for COMMIT, for stable writes, and for files that nobody commits.

use std::io;
use std::sync::Arc;

use vfs::{Commitment, ObjectId, Result};

use crate::inner::{Inner, blocking};

impl Inner {
    /// [`vfs::FileSystem::commit`]; always the whole file.
    pub(crate) async fn commit_data(self: &Arc<Self>, id: ObjectId) -> Result<Commitment> {
        let row = self.object(id)?;
        row.file()?;
        // Rows say how long the file is, so that the data is found. Those of all writes answered so far
        // have been committed, and become stable while the data does.
        let ticket = self.commits.committed();
        self.commits.ask_for(ticket);
        self.stabilise(id).await?;
        self.commits.wait(ticket, &self.health).await?;
        Ok(Commitment {
            verifier: self.verifier,
        })
    }

    /// Returns when all data written so far is on stable storage.
    pub(crate) async fn stabilise(self: &Arc<Self>, id: ObjectId) -> Result<()> {
        if self.dirty.unstable(id).is_none() {
            return self.health.check();
        }
        let inner = Arc::clone(self);
        blocking(move || inner.stabilise_blocking(id)).await
    }

    /// The same for threads that may block.
    pub(crate) fn stabilise_blocking(&self, id: ObjectId) -> Result<()> {
        self.health.check()?;
        let Some(unstable) = self.dirty.unstable(id) else {
            return Ok(());
        };
        let sync = || -> io::Result<()> {
            if let Some(file) = self.files.existing(id)? {
                file.sync_data()?;
                if unstable.new_name {
                    self.files.sync_name(id)?;
                }
            }
            Ok(())
        };
        // After a failed sync the kernel may have dropped the data and report success the next time, so
        // nothing that was answered can be relied on any more.
        sync().map_err(|error| self.fail(&format!("cannot make data of {id} stable: {error}")))?;
        self.dirty.stabilised(id, unstable);
        self.statistics.data_syncs.add(1);
        Ok(())
    }
}
