//! Which files have data that other replicas may not have.
//!
//! The table is authoritative; memory holds a copy, so that a file is marked only once.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vfs::{ObjectId, Result};

use crate::metadata::{Metadata, MetadataError, Table};
use crate::open_store::OpenStore;
use crate::rows::key;

/// The files that a table marks.
#[derive(Debug, Default)]
pub(crate) struct MarkedFiles(Mutex<HashSet<ObjectId>>);

impl MarkedFiles {
    pub(crate) fn load(
        metadata: &Metadata,
        table: Table,
    ) -> std::result::Result<MarkedFiles, MetadataError> {
        let mut ids = HashSet::new();
        for row in metadata.view().scan(table, &[], &[]) {
            ids.insert(key::parse_object(row?.key())?);
        }
        Ok(MarkedFiles(Mutex::new(ids)))
    }

    pub(crate) fn contains(&self, id: ObjectId) -> bool {
        self.ids().contains(&id)
    }

    pub(crate) fn add(&self, id: ObjectId) {
        self.ids().insert(id);
    }

    pub(crate) fn forget(&self, id: ObjectId) {
        self.ids().remove(&id);
    }

    /// Removes all marks.
    pub(crate) fn clear(&self) {
        self.ids().clear();
    }

    /// All marked files, in order.
    pub(crate) fn all(&self) -> Vec<ObjectId> {
        let mut ids: Vec<ObjectId> = self.ids().iter().copied().collect();
        ids.sort_unstable();
        ids
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<ObjectId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenStore {
    /// Files whose data changed with an update record since [`crate::OpenStore::forget_unshipped`].
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn unshipped(&self) -> Result<Vec<ObjectId>> {
        self.health.check()?;
        Ok(self.unshipped.all())
    }

    /// Removes files from the list of [`crate::OpenStore::unshipped`] if `shipped` says that every replica has their
    /// data. It is called with the writer's lock held, like a [`crate::CommitHook`], while no task can change them, and
    /// must not wait.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn forget_unshipped(
        &self,
        ids: &[ObjectId],
        shipped: &mut (dyn FnMut(ObjectId) -> bool + Send),
    ) -> Result<()> {
        let mut mutation = self.begin_maintenance().await?;
        for id in ids.iter().copied() {
            if self.unshipped.contains(id) && shipped(id) {
                mutation.unmark(Table::Unshipped, id);
                mutation.then(move |store, _| store.unshipped.forget(id));
            }
        }
        mutation.commit_local().map(|_| ())
    }
}
