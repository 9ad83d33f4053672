//! Operations on files that were removed and are open: the home of such a file has it, and the own copy follows.
//!
//! Nobody can open such a file anew, so there is no control of it. When its home is lost, each replica that keeps the
//! file goes on with its own copy, for good: the store notes that before anything is changed there, since the home may
//! come back.
//!
//! What must never enter: until when a file is kept.

use std::future::Future;

use store::Store;
use tokio::time::Instant;
use vfs::{Error, ObjectId, Result};

use super::{Forwarding, ReplicatedFileSystem};
use crate::state::forward::{Expected, Operation};
use crate::state::removed::Place;

/// What has come of an operation on a removed file.
pub(super) enum AtHome<T> {
    /// The home has carried it out.
    Done(T),
    /// The own copy is the file.
    Here,
    /// It is to be tried again.
    Again,
}

impl ReplicatedFileSystem {
    /// Where an operation on a removed file goes; `None` for a file with a name. What was forwarded goes no further.
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

    /// Whether a file that had a name when an operation on it began has been removed since, so that the own copy alone must not
    /// answer: the operation is to be tried again, and goes to the home then.
    pub(super) fn went_home(&self, file: ObjectId) -> bool {
        let place = self.removed_place(file);
        place.is_some_and(|place| place != Place::Here || !self.follows())
    }

    /// Whether the copy of the replica that asks gets what is done to a removed file here.
    fn follows(&self) -> bool {
        let is_told = |forwarding: &Forwarding| forwarding.removed;
        self.forwarding.as_ref().is_none_or(is_told)
    }

    /// Has the home of a removed file carry an operation out.
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
            // It took this replica for lost, or has itself begun anew.
            Err(Error::Stale) => {
                self.replica.state.removed.go_on_alone(file);
                Ok(AtHome::Here)
            }
            Err(error) => Err(error),
        }
    }

    /// Changes a removed file at its home, and the own copy likewise. `None`: it is to be tried again.
    ///
    /// Who forwards a change without knowing that the file was removed would leave its own copy as it is, which is the file once its
    /// home is lost. It is told that this replica is not primary, and comes again when the removal has come to it.
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

    /// Notes before a change of the own copy that this is the file now, if its home is lost.
    async fn note_alone(&self, file: ObjectId) -> Result<()> {
        let replica = &self.replica;
        if self.is_forwarded() || replica.store.orphan_is_here(file) {
            return Ok(());
        }
        let servers = &replica.state.servers;
        let is_here = |client: &[u8]| servers.absent(&[client.into()], false).is_empty();
        replica.store.go_on_alone(file, is_here).await
    }

    /// What the own copy of a removed file says, if all of it is here.
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
