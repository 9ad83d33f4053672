//! One operation on an open store, with its commit hook.
//!
//! An [`Operation`] changes replicated rows; [`OpenStore`] itself changes what belongs to this copy
//! only.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use vfs::{Error, ObjectId, Result};

use crate::commit_hook::CommitHook;
use crate::mutation::{Mutation, wait_for_space};
use crate::open_store::{OpenStore, detached};
use crate::space::Demand;

/// An open store, and the hook that is called before changes through this value are committed.
#[derive(Clone)]
pub struct Operation {
    pub(crate) store: Arc<OpenStore>,
    pub(crate) hook: Option<Arc<dyn CommitHook>>,
}

impl Deref for Operation {
    type Target = Arc<OpenStore>;

    fn deref(&self) -> &Arc<OpenStore> {
        &self.store
    }
}

impl Operation {
    /// [`OpenStore::begin`].
    pub(crate) async fn begin(&self, demand: Demand) -> Result<Mutation<'_>> {
        let mutation = self.store.begin(demand).await?;
        Ok(mutation.asking(self.hook.clone()))
    }

    /// The same for an operation that frees something and is never refused permanently: without space the client has to retry.
    pub(crate) async fn begin_release(&self) -> Result<Mutation<'_>> {
        self.begin(Demand::Removal).await.map_err(wait_for_space)
    }

    /// [`OpenStore::begin_maintenance`].
    pub(crate) async fn begin_maintenance(&self) -> Result<Mutation<'_>> {
        let mutation = self.store.begin_maintenance().await?;
        Ok(mutation.asking(self.hook.clone()))
    }

    /// Changes the data of a file. The change runs to its end even if the waiting caller is cancelled: it must not be left half
    /// done, and the hook is called at its end.
    pub(crate) async fn change_data<T, F>(
        &self,
        id: ObjectId,
        work: impl FnOnce(Operation) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let operation = self.clone();
        detached(async move {
            let Some(hook) = operation.hook.clone() else {
                return work(operation).await;
            };
            let row = operation.object(id)?;
            hook.before_data(row.touched(id), row.links > 0)?;
            let outcome = work(operation).await;
            hook.after_data(outcome.is_ok());
            outcome
        })
        .await
    }
}

/// The error of a change of a replicated tree without a commit hook.
pub(crate) fn no_hook() -> Error {
    Error::Io("a change that replicas keep was made without a commit hook; please report it".into())
}
