//! Making data stable: for COMMIT, for stable writes, and for files without a COMMIT.

use std::sync::Arc;

use vfs::{Commitment, ObjectId, Result};

use super::kept::Kept;
use crate::committer::Ticket;
use crate::open_store::{OpenStore, blocking};

impl OpenStore {
    /// [`vfs::FileSystem::commit`]; always the whole file.
    pub(crate) async fn commit_data(self: &Arc<Self>, id: ObjectId) -> Result<Commitment> {
        let row = self.object(id)?;
        row.file()?;
        // The size in the row makes the data visible. The rows of all writes answered so far
        // are committed, and become stable while the data does.
        let ticket = self.commits.committed();
        self.commits.ask_for(ticket);
        let released = self.stabilise(id).await?;
        self.commits
            .wait(ticket.max(released), &self.health)
            .await?;
        Ok(Commitment {
            verifier: self.verifier(),
        })
    }

    /// Makes all data written so far stable. A caller that guarantees that the data stays must also wait for the
    /// ticket: it covers the removal of kept writes, which a crash would otherwise restore over later writes.
    pub(crate) async fn stabilise(self: &Arc<Self>, id: ObjectId) -> Result<Ticket> {
        self.health.check()?;
        let unstable = self.dirty.unstable(id);
        let is_new = unstable.as_ref().is_some_and(|unstable| unstable.new_name);
        let kept = match unstable {
            None => self.dirty.kept_of_stable(id),
            Some(_) => {
                let store = Arc::clone(self);
                blocking(move || store.stabilise_blocking(id)).await?
            }
        };
        let released = match kept.is_empty() {
            true => self.commits.committed(),
            false => self.release_kept(id, &kept).await?,
        };
        if is_new {
            // No caller has to wait for this batch.
            self.note_there(id).await?;
        }
        Ok(released)
    }

    /// Notes that the data file of a marked file exists permanently.
    async fn note_there(&self, id: ObjectId) -> Result<()> {
        let mut mutation = self.begin_maintenance().await?;
        let has_file = mutation
            .object(id)
            .is_ok_and(|row| row.placement().is_none());
        // Marks change only under the lock that is held now.
        if !has_file || !self.dirty.is_own(id) {
            return Ok(());
        }
        mutation.mark_dirty(id, true);
        mutation.commit_local().map(drop)
    }

    /// Makes a cut stable before the file grows again. Once the row has a larger size, nothing else prevents
    /// the bytes that were cut off from coming back.
    pub(super) async fn settle_cut(self: &Arc<Self>, id: ObjectId) -> Result<()> {
        if self.dirty.has_unstable_cut(id) {
            // The removal of kept writes comes before the batch of the operation that lets the file grow.
            let _released = self.stabilise(id).await?;
        }
        Ok(())
    }

    /// Like [`OpenStore::stabilise`], for threads that may block. Returns the kept writes whose data is stable now;
    /// the caller releases them.
    pub(crate) fn stabilise_blocking(&self, id: ObjectId) -> Result<Vec<Kept>> {
        self.health.check()?;
        let Some(unstable) = self.dirty.unstable(id) else {
            return Ok(self.dirty.kept_of_stable(id));
        };
        self.make_stable(id, &unstable)?;
        Ok(unstable.kept)
    }
}
