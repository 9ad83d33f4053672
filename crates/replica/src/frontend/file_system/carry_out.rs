//! The one loop that tries an operation at this replica, hands it to another one, or waits, until it is answered or its client is told to try
//! again.
//!
//! Reads, changes of rows, and changes of data differ in how they are tried; each has one function.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use store::Store;
use tokio::time::Instant;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use super::pin::{DataHook, Effect};
use super::removed::AtHome;
use super::{Absence, ReplicatedFileSystem, verdict_by};
use crate::driver::waiting::{CALM, changed};
use crate::state::forward::{Expected, Operation};
use crate::state::ledger::{PendingVerdict, Verdict};

/// The result of trying an operation at this replica.
pub(super) enum Tried<T> {
    /// The answer.
    Answer(Result<T>),
    /// That replica decides about it.
    Elsewhere(ReplicaSlot),
    /// The store has refused it before control was looked at.
    Denied(Error),
    /// Control was requested.
    Refused(PendingVerdict),
    /// The local copy does not know one of the objects.
    Unknown,
    /// Try it again now.
    Again,
    /// Try it again after a change.
    Later,
}

impl ReplicatedFileSystem {
    /// Carries out an operation: `attempt` tries it here, `operation` is the request to others. `objects` must be known here.
    pub(super) async fn carry_out<T, F>(
        &self,
        objects: &[ObjectId],
        attempt: impl Fn() -> F + Send + Sync,
        operation: impl Fn() -> Operation + Send + Sync,
        deadline: Instant,
    ) -> Result<T>
    where
        T: Expected + Send,
        F: Future<Output = Result<Tried<T>>> + Send,
    {
        let (mut arrived, mut calm) = (false, Duration::ZERO);
        loop {
            // Changes count from here on.
            let mut changes = self.replica.engine.notifications();
            let elsewhere = match attempt().await? {
                Tried::Answer(answer) => return answer,
                Tried::Denied(error) => return Err(error),
                Tried::Again => continue,
                Tried::Later => None,
                Tried::Elsewhere(holder) => Some(holder),
                Tried::Refused(verdict) => match verdict_by(verdict, deadline).await? {
                    Verdict::Admitted => continue,
                    Verdict::Elsewhere(holder) => Some(holder),
                },
                Tried::Unknown => match self.absence(objects).await {
                    Absence::Elsewhere(maker) => Some(maker),
                    Absence::Arrived if !arrived => {
                        arrived = true;
                        continue;
                    }
                    Absence::Arrived | Absence::Gone => return Err(Error::Stale),
                },
            };
            if let Some(holder) = elsewhere {
                let handed = self.hand_over(holder, (&operation, false), deadline);
                if let Some(value) = handed.await? {
                    return Ok(value);
                }
            }
            if Instant::now() > deadline {
                return Err(Error::Delay);
            }
            changed(&mut changes, calm, deadline).await;
            calm = CALM;
        }
    }

    /// Answers from the copy that is right: the primary's, or else the local one. The first of `objects` decides.
    pub(super) async fn look<T, F>(
        &self,
        objects: &[ObjectId],
        attempt: impl Fn() -> F + Send + Sync,
        operation: impl Fn() -> Operation + Send + Sync,
    ) -> Result<T>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
    {
        let deadline = self.deadline();
        let look = || self.try_to_look(objects, &attempt, &operation, deadline);
        self.carry_out(objects, look, &operation, deadline).await
    }

    async fn try_to_look<T, F>(
        &self,
        objects: &[ObjectId],
        attempt: &(impl Fn() -> F + Send + Sync),
        operation: &(impl Fn() -> Operation + Send + Sync),
        deadline: Instant,
    ) -> Result<Tried<T>>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
    {
        if self.reads_stale() {
            return Ok(Tried::Answer(attempt().await));
        }
        self.wait_for_lease(deadline).await?;
        let first = objects[0];
        if let Some(place) = self.removed_place(first) {
            return match self.at_home(first, place, operation, deadline).await? {
                AtHome::Done(value) => Ok(Tried::Answer(Ok(value))),
                AtHome::Here => {
                    self.check_removed(first)?;
                    Ok(Tried::Answer(attempt().await))
                }
                AtHome::Again => Ok(Tried::Later),
            };
        }
        match objects.iter().find_map(|object| self.holder(*object)) {
            Some(holder) if self.shows_frozen() && self.is_lost(holder) => {
                return Ok(Tried::Answer(attempt().await));
            }
            Some(holder) => return Ok(Tried::Elsewhere(holder)),
            None => self.check_contents(objects)?,
        }
        Ok(match attempt().await {
            Err(Error::Io(why)) => match self.good_copy(first) {
                Some(other) => Tried::Elsewhere(other),
                None => Tried::Answer(Err(Error::Io(why))),
            },
            // A copy that was read without a lease is read again.
            Ok(_) if !self.may_answer() || self.check_contents(objects).is_err() => Tried::Again,
            Err(Error::Stale) if !self.is_forwarded() => Tried::Unknown,
            // Only its home has the changes of others.
            _ if self.went_home(first) => Tried::Again,
            outcome => Tried::Answer(outcome),
        })
    }

    fn check_contents(&self, objects: &[ObjectId]) -> Result<()> {
        (objects.iter()).try_for_each(|object| self.check_content(*object))
    }

    /// The steps before a change is tried here: wait for the lease and for a member that lacks too much; change a removed file at its home.
    async fn begin<T, F>(
        &self,
        object: ObjectId,
        attempt: &(impl Fn(Store) -> F + Send + Sync),
        operation: &(impl Fn() -> Operation + Send + Sync),
        deadline: Instant,
    ) -> Result<Option<Tried<T>>>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
    {
        self.wait_to_change(deadline).await?;
        let Some(place) = self.removed_place(object) else {
            return Ok(None);
        };
        let done = self.change_removed(object, place, attempt, operation, deadline);
        let tried = done
            .await?
            .map_or(Tried::Later, |value| Tried::Answer(Ok(value)));
        Ok(Some(tried))
    }

    pub(super) async fn try_to_change<T, F>(
        &self,
        object: ObjectId,
        attempt: &(impl Fn(Store) -> F + Send + Sync),
        operation: &(impl Fn() -> Operation + Send + Sync),
        deadline: Instant,
    ) -> Result<Tried<T>>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
    {
        if let Some(at_home) = self.begin(object, attempt, operation, deadline).await? {
            return Ok(at_home);
        }
        // The local copy must not judge what another replica controls, not even to refuse it.
        if self.holder(object).is_some()
            && let Some(elsewhere) = self.claim(object, deadline).await?
        {
            return Ok(Tried::Elsewhere(elsewhere));
        }
        let hook = Arc::new(self.hook());
        let outcome = attempt(self.replica.store.with_hook(hook.clone())).await;
        if !hook.was_asked() && self.went_home(object) {
            return Ok(Tried::Again);
        }
        match (hook.take_refusal(), outcome) {
            (Some(verdict), Err(_)) => Ok(Tried::Refused(verdict)),
            (None, Err(Error::Stale)) if !self.is_forwarded() => Ok(Tried::Unknown),
            (None, Err(error)) if !hook.was_asked() => Ok(Tried::Denied(error)),
            (_, outcome) => Ok(Tried::Answer(self.answered(object, outcome).await)),
        }
    }

    /// What an operation was answered whose forward has not been answered, if it turns out now that it was carried out.
    pub(super) async fn carried_out_before<T: Expected>(
        &self,
        operation: &(impl Fn() -> Operation + Send + Sync),
        deadline: Instant,
    ) -> Result<Option<T>> {
        match self.replica.state.outcomes.take(operation, Instant::now()) {
            Some(unanswered) => self.find_out(operation(), unanswered, deadline).await,
            None => Ok(None),
        }
    }

    /// Carries out a change of a file's data here, or lets the primary do it.
    pub(super) async fn change_data<T, F>(
        &self,
        file: ObjectId,
        effect: Effect,
        attempt: impl Fn(Store) -> F + Send + Sync,
        operation: impl Fn() -> Operation + Send + Sync,
    ) -> Result<T>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
    {
        let deadline = self.deadline();
        if let Some(value) = self.carried_out_before(&operation, deadline).await? {
            return Ok(value);
        }
        let change = || self.try_to_change_data((file, &effect), &attempt, &operation, deadline);
        self.carry_out(&[file], change, &operation, deadline).await
    }

    async fn try_to_change_data<T, F>(
        &self,
        (file, effect): (ObjectId, &Effect),
        attempt: &(impl Fn(Store) -> F + Send + Sync),
        operation: &(impl Fn() -> Operation + Send + Sync),
        deadline: Instant,
    ) -> Result<Tried<T>>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
    {
        let alone = self.replica.engine.is_alone();
        if !matches!(effect, Effect::Cut(0)) && self.holder(file).is_none() {
            self.mended(file, deadline).await?;
        }
        if !alone {
            if let Some(at_home) = self.begin(file, attempt, operation, deadline).await? {
                return Ok(at_home);
            }
            if self.holder(file).is_none() {
                self.check_content(file)?;
            }
            // The copy says whether others share what is changed.
            match self.local(file).await {
                Err(Error::Stale) if !self.is_forwarded() => return Ok(Tried::Unknown),
                known => known?,
            };
        }
        let hook = Arc::new(DataHook::new(self, file, effect.clone()));
        let outcome = attempt(self.replica.store.with_hook(hook.clone())).await;
        hook.finish(outcome.is_ok());
        if !alone && !hook.held() && self.went_home(file) {
            return Ok(Tried::Again);
        }
        match (hook.admission.take_refusal(), outcome) {
            (Some(verdict), Err(_)) => Ok(Tried::Refused(verdict)),
            (_, outcome) if alone || !hook.held() => Ok(Tried::Answer(outcome)),
            (_, outcome) => Ok(Tried::Answer(self.answered(file, outcome).await)),
        }
    }
}
