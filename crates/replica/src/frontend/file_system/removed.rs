//! Operations on open files that were removed: the home of such a file has it, and the local copy follows.
//!
//! No client can open such a file again, so there is no control of it. When its home is lost, each replica that keeps the file permanently goes
//! on with its own copy. The store notes that before any change there, since the home may come back.
//!
//! What must never enter: how long a file is kept.

use std::future::Future;

use store::Store;
use tokio::time::Instant;
use vfs::{Error, ObjectId, Result};

use super::{Forwarding, ReplicatedFileSystem};
use crate::state::forward::{Expected, Operation};
use crate::state::removed::Place;

/// The result of an operation on a removed file.
pub(super) enum AtHome<T> {
    /// The home has carried it out.
    Done(T),
    /// The local copy is the file.
    Here,
    /// Try it again.
    Again,
}

impl ReplicatedFileSystem {
    /// Where an operation on a removed file goes; `None` for a file with a name. Forwarded operations go no further.
    pub(super) fn removed_place(&self, file: ObjectId) -> Option<Place> {
        let replica = &self.replica;
        let home = replica.store.orphan_home(file)?;
        let here = replica.store.orphan_is_here(file) || replica.state.removed.is_alone(file);
        let place = if here { Place::Here } else { Place::At(home) };
        Some(match place {
            Place::At(_) if self.is_forwarded() => Place::Here,
            Place::At(home) if self.is_lost(home) => {
                self.replica.state.removed.go_on_alone(file);
                Place::Here
            }
            place => place,
        })
    }

    /// Whether a file that had a name at the start of an operation has been removed since. Then the local copy alone must not answer: the
    /// operation is tried again, and goes to the home.
    pub(super) fn went_home(&self, file: ObjectId) -> bool {
        let place = self.removed_place(file);
        place.is_some_and(|place| place != Place::Here || !self.follows())
    }

    /// Whether the copy of the asking replica also gets what is done to a removed file here.
    fn follows(&self) -> bool {
        let is_told = |forwarding: &Forwarding| forwarding.removed;
        self.forwarding.as_ref().is_none_or(is_told)
    }

    /// Makes the home of a removed file carry out an operation.
    pub(super) async fn at_home<T: Expected>(
        &self,
        file: ObjectId,
        place: Place,
        operation: impl Fn() -> Operation,
        deadline: Instant,
    ) -> Result<AtHome<T>> {
        let Place::At(home) = place else {
            return Ok(AtHome::Here);
        };
        match self.hand_over(home, (operation, true), deadline).await {
            Ok(Some(value)) => Ok(AtHome::Done(value)),
            Ok(None) => Ok(AtHome::Again),
            // It believed that this replica is lost, or has restarted itself.
            Err(Error::Stale) => {
                self.replica.state.removed.go_on_alone(file);
                Ok(AtHome::Here)
            }
            Err(error) => Err(error),
        }
    }

    /// Changes a removed file at its home, and the local copy likewise. `None`: try it again.
    ///
    /// A replica that forwards a change without knowing of the removal would not change its own copy, which is the file once its home is lost.
    /// It is told that this replica is not primary, and asks again after the removal has arrived there.
    pub(super) async fn change_removed<T, F>(
        &self,
        file: ObjectId,
        place: Place,
        attempt: &(impl Fn(Store) -> F + Send + Sync),
        operation: &(impl Fn() -> Operation + Send + Sync),
        deadline: Instant,
    ) -> Result<Option<T>>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
    {
        if !self.follows() {
            return Err(self.not_primary());
        }
        match self.at_home(file, place, operation, deadline).await? {
            AtHome::Done(value) => {
                if let Err(error) = attempt(self.store()).await {
                    tracing::debug!(%file, %error, "the own copy of a removed file does not follow");
                }
                Ok(Some(value))
            }
            AtHome::Here => {
                self.note_alone(file).await?;
                attempt(self.store()).await.map(Some)
            }
            AtHome::Again => Ok(None),
        }
    }

    /// Notes before a change of the local copy that this is the file now, if its home is lost.
    async fn note_alone(&self, file: ObjectId) -> Result<()> {
        let replica = &self.replica;
        if self.is_forwarded() || replica.store.orphan_is_here(file) {
            return Ok(());
        }
        let servers = &replica.state.servers;
        let is_here = |client: &[u8]| servers.absent(&[client.into()], false).is_empty();
        replica.store.go_on_alone(file, is_here).await
    }

    /// Refuses a read of the local copy of a removed file if a part is missing.
    pub(super) fn check_removed(&self, file: ObjectId) -> Result<()> {
        let store = &self.replica.store;
        let own = store.orphan_home(file) == Some(self.replica.slot());
        if !own && store.is_incomplete(file) {
            let why =
                "the server that removed this open file is lost, and not all of it had come here";
            return Err(Error::Io(why.into()));
        }
        Ok(())
    }
}
