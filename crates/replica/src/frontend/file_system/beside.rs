//! Changes of rows: of one object, or of a directory together with what is beside it, which are the targets of names in it and other
//! directories.
//!
//! Control of all of them comes here before the local copy is asked, since the store refuses some changes by itself: a directory that is not
//! empty is not removed, whatever another replica has removed from it.

use std::future::{Future, ready};

use control::{Subject, Update};
use store::Store;
use tokio::time::Instant;
use vfs::{Attributes, Credentials, Error, FileSystem, Name, ObjectId, ReplicaSlot, Result};

use super::ReplicatedFileSystem;
use super::carry_out::Tried;
use crate::driver::tree::subject_of;
use crate::state::forward::{Expected, Operation};

/// What an update touches besides the directory that decides about it.
pub(super) struct Beside {
    objects: Vec<ObjectId>,
    /// The update that asks for control of all of them, and of the directory.
    update: Update,
}

impl ReplicatedFileSystem {
    /// Carries out a change of one object as soon as this replica may, or lets the primary carry it out.
    pub(super) async fn change<T, F>(
        &self,
        object: ObjectId,
        attempt: impl Fn(Store) -> F + Send + Sync,
        operation: impl Fn() -> Operation + Send + Sync,
    ) -> Result<T>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
    {
        let nothing = || ready(None);
        self.change_beside((object, &[]), nothing, attempt, operation)
            .await
    }

    /// The same for a directory and what is `beside` it; `others` must also be known here. If no replica controls the directory, and one other replica controls the rest, that one
    /// carries out the change. Control of all of them together would wait until the contents of a file are shipped, and no client could change
    /// the directory meanwhile.
    pub(super) async fn change_beside<T, F, B>(
        &self,
        (object, others): (ObjectId, &[ObjectId]),
        beside: impl Fn() -> B + Send + Sync,
        attempt: impl Fn(Store) -> F + Send + Sync,
        operation: impl Fn() -> Operation + Send + Sync,
    ) -> Result<T>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
        B: Future<Output = Option<Beside>> + Send,
    {
        if self.replica.engine.is_alone() {
            return attempt(self.store()).await;
        }
        let deadline = self.deadline();
        if let Some(value) = self.carried_out_before(&operation, deadline).await? {
            return Ok(value);
        }
        let objects: Vec<ObjectId> = [object].iter().chain(others).copied().collect();
        let change = || async {
            if let Some(beside) = beside().await
                && let Some(decider) = self.gather(object, &beside, deadline).await?
            {
                return Ok(Tried::Elsewhere(decider));
            }
            let changing = self.try_to_change(object, &attempt, &operation, deadline);
            Ok(match changing.await? {
                // The names may have got other targets since they were gathered.
                Tried::Denied(_) if !self.may_judge(object, beside().await) => Tried::Later,
                tried => tried,
            })
        };
        self.carry_out(&objects, change, &operation, deadline).await
    }

    /// Whether no other replica in the view controls any of this, as far as is known here, so that a refusal by the local copy counts.
    fn may_judge(&self, directory: ObjectId, beside: Option<Beside>) -> bool {
        let beside = beside.map(|beside| beside.objects).unwrap_or_default();
        let mut touched = beside.into_iter().chain([directory]);
        touched.all(|object| {
            self.holder(object)
                .is_none_or(|holder| self.is_lost(holder))
        })
    }

    /// Gets control of what is beside a directory if another replica has it; returns the replica that is to carry out the change instead.
    /// A directory that another replica controls is asked for first, and alone.
    async fn gather(
        &self,
        directory: ObjectId,
        beside: &Beside,
        deadline: Instant,
    ) -> Result<Option<ReplicaSlot>> {
        let is_held = |object: &ObjectId| self.holder(*object).is_some();
        if is_held(&directory) || !beside.objects.iter().any(is_held) {
            return Ok(None);
        }
        if let Some(decider) = self.decider_beside(directory, &beside.objects) {
            return Ok(Some(decider));
        }
        self.acquire(&beside.update, deadline).await
    }

    /// The one other replica that decides about objects beside a directory that no replica controls.
    fn decider_beside(&self, directory: ObjectId, beside: &[ObjectId]) -> Option<ReplicaSlot> {
        let mut holders = beside.iter().filter_map(|object| self.holder(*object));
        let first = holders.next()?;
        let is_one = holders.all(|holder| holder == first) && !self.is_lost(first);
        if !is_one || self.is_forwarded() {
            return None;
        }
        let is_primary = (self.replica.engine).is_primary(Subject::Directory(directory));
        (!is_primary).then_some(first)
    }

    /// What is beside the directory of a name that is removed; nothing while no other replica decides about anything.
    pub(super) async fn beside_removed(&self, parent: ObjectId, name: &Name) -> Option<Beside> {
        if !self.replica.engine.anything_foreign() {
            return None;
        }
        let removed = self.child(parent, name).await?;
        Some(Beside {
            objects: vec![removed.id],
            update: Update::Remove {
                parent,
                removed: subject_of(&removed),
            },
        })
    }

    /// The same for what a rename touches besides the source directory, which alone says that there is nothing of the old name.
    pub(super) async fn beside_renamed(
        &self,
        (from, old): (ObjectId, &Name),
        (to, new): (ObjectId, &Name),
    ) -> Option<Beside> {
        if !self.replica.engine.anything_foreign() {
            return None;
        }
        let moved = self.child(from, old).await?;
        let replaced = self.child(to, new).await.filter(|row| row.id != moved.id);
        let mut objects = vec![moved.id, to];
        objects.extend(replaced.as_ref().map(|row| row.id));
        Some(Beside {
            objects,
            update: Update::Rename {
                from,
                to,
                moved: subject_of(&moved),
                replaced: replaced.as_ref().map(subject_of),
            },
        })
    }

    /// The same for a file that gets another name in `parent`.
    pub(super) fn beside_linked(file: ObjectId, parent: ObjectId) -> Beside {
        Beside {
            objects: vec![file],
            update: Update::Link { file, parent },
        }
    }

    /// The target of a name in the local copy, no matter what the permissions on the directory say.
    async fn child(&self, directory: ObjectId, name: &Name) -> Option<Attributes> {
        let root = Credentials::root();
        match self.replica.store.lookup(&root, directory, name).await {
            Ok(found) => Some(found),
            Err(Error::NotFound | Error::Stale | Error::NotDirectory) => None,
            Err(error) => {
                tracing::debug!(%error, "a name could not be looked at");
                None
            }
        }
    }
}
