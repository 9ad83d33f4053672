//! Files whose content is known to be wrong. The table is authoritative; reads look at its copy
//! in memory.

use std::sync::Arc;

use vfs::{ChangeAttribute, Error, ObjectId, Result};

use super::digests::ContentDigest;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::open_store::OpenStore;

impl OpenStore {
    /// Fails if a file is damaged: its data must not be read.
    pub(crate) fn check_undamaged(&self, file: ObjectId) -> Result<()> {
        match self.damaged.contains(file) {
            false => Ok(()),
            true => Err(Error::Io(format!(
                "the content of {} is damaged",
                self.called(file)
            ))),
        }
    }

    /// Whether the content here is not that of the file's version, or is not trusted.
    pub(super) fn lacks_content(&self, file: ObjectId) -> bool {
        self.incomplete.contains(file)
            || self.unfetched.contains(file)
            || self.damaged.contains(file)
    }

    /// Adds to a batch that the content of a file is wrong.
    pub(crate) fn enter_damage(&self, mutation: &mut Mutation<'_>, file: ObjectId) {
        tracing::error!(
            "the disk has changed the content of {}: it is to be had from another replica",
            self.called(file)
        );
        mutation.mark(Table::Damaged, file);
        mutation.unmark(Table::Digests, file);
        mutation.then(move |store, _| store.damaged.add(file));
    }

    /// Notes that the content of a file is wrong, as examined in this version. Returns false and notes nothing if the file has
    /// another version now, or is being written. From now on the file is neither read nor sent to
    /// other replicas, until it is mended ([`crate::OpenStore::begin_mending`]), emptied or removed. `note_is_right`: the
    /// noted digest ([`crate::OpenStore::noted_content`]) is the right one; otherwise it is removed. Stable on return.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are not files; [`vfs::Error::Io`] when
    /// storage fails.
    pub async fn note_damaged(
        &self,
        file: ObjectId,
        version: ChangeAttribute,
        note_is_right: bool,
    ) -> Result<bool> {
        let mut mutation = self.begin_maintenance().await?;
        let row = mutation.object(file)?;
        row.file()?;
        // No task can begin to write a file at rest now: that needs the writer's lock, too.
        if row.change != version || self.dirty.contains(file) {
            return Ok(false);
        }
        mutation.mark(Table::Damaged, file);
        if !note_is_right {
            mutation.unmark(Table::Digests, file);
        }
        mutation.then(move |store, _| store.damaged.add(file));
        let ticket = mutation.commit_local()?;
        self.commits.wait(ticket, &self.health).await?;
        Ok(true)
    }

    /// Removes the damage mark of a file that is empty now, since no wrong data is left. Returns whether it is empty.
    ///
    /// # Errors
    /// As [`crate::OpenStore::note_damaged`].
    pub async fn forget_damage_of_empty(self: &Arc<Self>, file: ObjectId) -> Result<bool> {
        // No task may write in between, or old bytes could come back.
        let alone = self.guards.exclude(file).await;
        if self.object(file)?.size > 0 {
            return Ok(false);
        }
        self.cut_tail(&alone, file, 0).await?;
        let mut mutation = self.begin_maintenance().await?;
        mutation.unmark(Table::Damaged, file);
        mutation.then(move |store, _| store.damaged.forget(file));
        mutation.commit_local().map(|_| true)
    }

    /// The noted digest of a file's content, if the file still has that version. Does not read the
    /// data file.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are not files; [`vfs::Error::Io`] when the
    /// row cannot be read.
    pub fn noted_content(&self, file: ObjectId) -> Result<Option<ContentDigest>> {
        let row = self.object(file)?;
        row.file()?;
        let noted = self.noted(file)?;
        Ok(noted.filter(|noted| (noted.change, noted.size) == (row.change, row.size)))
    }
}
