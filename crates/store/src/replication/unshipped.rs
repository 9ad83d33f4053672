//! Which files have data that other replicas may not have.
//!
//! The table is the truth; what is in it is known in memory too, so that a file is marked once.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vfs::{ObjectId, Result};

use crate::inner::Inner;
use crate::metadata::{Metadata, MetadataError, Table};
use crate::rows::key;

/// The files that are marked in a table.
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

    /// Nothing is marked any more.
    pub(crate) fn clear(&self) {
        self.ids().clear();
    }

    /// All of them, in order.
    pub(crate) fn all(&self) -> Vec<ObjectId> {
        let mut ids: Vec<ObjectId> = self.ids().iter().copied().collect();
        ids.sort_unstable();
        ids
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<ObjectId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    pub(super) fn unshipped_files(&self) -> Result<Vec<ObjectId>> {
        self.health.check()?;
        Ok(self.unshipped.all())
    }

    pub(super) async fn forget_unshipped(
        &self,
        ids: &[ObjectId],
        shipped: &mut (dyn FnMut(ObjectId) -> bool + Send),
    ) -> Result<()> {
        let mut mutation = self.begin_maintenance().await?;
        for id in ids.iter().copied() {
            if self.unshipped.contains(id) && shipped(id) {
                mutation.unmark(Table::Unshipped, id);
                mutation.then(move |inner, _| inner.unshipped.forget(id));
            }
        }
        mutation.commit_local().map(|_| ())
    }
}
