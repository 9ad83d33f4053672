//! Files whose content is known not to be what it should be. The table is the truth; every read asks what is
//! known of it in memory.

use std::sync::Arc;

use vfs::{ChangeAttribute, Error, ObjectId, Result};

use super::digests::ContentDigest;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::open_store::OpenStore;

impl OpenStore {
    /// Nothing of a damaged file is shown to anybody.
    pub(crate) fn check_undamaged(&self, file: ObjectId) -> Result<()> {
        match self.damaged.contains(file) {
            false => Ok(()),
            true => Err(Error::Io(format!(
                "the content of {} is damaged",
                self.called(file)
            ))),
        }
    }

    /// Whether the content here is not that of the file's version, or not to be trusted.
    pub(super) fn lacks_content(&self, file: ObjectId) -> bool {
        self.incomplete.contains(file)
            || self.unfetched.contains(file)
            || self.damaged.contains(file)
    }

    /// Notes in a batch that the content of a file is not what it should be.
    pub(crate) fn enter_damage(&self, mutation: &mut Mutation<'_>, file: ObjectId) {
        tracing::error!(
            "the disk has changed the content of {}: it is to be had from another replica",
            self.called(file)
        );
        mutation.mark(Table::Damaged, file);
        mutation.unmark(Table::Digests, file);
        mutation.then(move |store, _| store.damaged.add(file));
    }

    /// Notes that the content of a file, which was looked at as it was in this version, is not what it should be. `false`: it is
    /// of another one by now, or somebody writes it; then nothing is noted. From now on it is neither read nor sent to
    /// other replicas, until it is mended ([`crate::OpenStore::begin_mending`]), emptied or removed. `note_is_right`: what was
    /// noted of it ([`crate::OpenStore::noted_content`]) is what it should be; else that is forgotten. Stable on return.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are no files; [`vfs::Error::Io`] when
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
        // Nobody begins to write a file at rest while this goes on, since that is a change too.
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

    /// Takes that back of a file that is empty by now, since nothing is left of what was wrong; says whether it is.
    ///
    /// # Errors
    /// As [`crate::OpenStore::note_damaged`].
    pub async fn forget_damage_of_empty(self: &Arc<Self>, file: ObjectId) -> Result<bool> {
        // Nobody may write in between, or old bytes could come back.
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

    /// What was noted of the content of a file, if the file is still of that version. Nothing is read from the
    /// data file.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are no files; [`vfs::Error::Io`] when the
    /// row cannot be read.
    pub fn noted_content(&self, file: ObjectId) -> Result<Option<ContentDigest>> {
        let row = self.object(file)?;
        row.file()?;
        let noted = self.noted(file)?;
        Ok(noted.filter(|noted| (noted.change, noted.size) == (row.change, row.size)))
    }
}
