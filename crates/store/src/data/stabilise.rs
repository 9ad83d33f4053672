//! Making data stable: for COMMIT, for stable writes, and for files that nobody commits.

use std::sync::Arc;

use vfs::{Commitment, ObjectId, Result};

use super::kept::Kept;
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
        let kept = blocking(move || inner.stabilise_blocking(id)).await?;
        if !kept.is_empty() {
            // Or they would come back over later writes after a crash.
            let mut mutation = self.begin_upkeep().await?;
            self.drop_kept(&mut mutation, id, &kept);
            mutation.commit()?;
        }
        Ok(())
    }

    /// The same for threads that may block. Returns what was kept of the data that is stable now.
    pub(crate) fn stabilise_blocking(&self, id: ObjectId) -> Result<Vec<Kept>> {
        self.health.check()?;
        let Some(unstable) = self.dirty.unstable(id) else {
            return Ok(Vec::new());
        };
        self.make_stable(id, &unstable)?;
        Ok(unstable.kept)
    }
}
