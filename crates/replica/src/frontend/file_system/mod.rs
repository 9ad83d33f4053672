//! Where operations come in: from the clients of this server, and forwarded from other replicas.
//!
//! Each operation is carried out here, or handed to the replica that controls what it touches, or waits
//! until this replica does. The file system itself is in `files`; here is what its operations have in
//! common.

mod files;
mod names;
mod opens;
mod pin;
mod reads;
mod removed;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use control::Update;
use tokio::time::Instant;
use vfs::{Attributes, Error, FileSystem, ObjectId, ReplicaSlot, Result};

use removed::AtHome;

use crate::driver::engine::Guard;
use crate::driver::replica_state::ReplicaState;
use crate::driver::tree::subject_of;
use crate::state::copies::Held;
use crate::state::forward::{Expected, Handed, Operation, Value};
use crate::state::ledger::Verdict;
use crate::state::members::REMOVED;
use crate::state::outcomes::{Outcome, Unanswered};
use crate::state::settings::{Frozen, WithoutMajority};

/// How long to wait before asking again, when nothing else happens meanwhile.
const PAUSE: Duration = Duration::from_millis(20);

/// So long after a moment it is surely over.
const AFTER: Duration = Duration::from_millis(1);

/// The replicated tree as a file system.
#[derive(Clone)]
pub(crate) struct ReplicatedFileSystem {
    pub(crate) shared: Arc<ReplicaState>,
    /// The operation comes from another replica and goes no further (rule 18).
    pub(crate) forwarded: bool,
    /// That one knows that the file was removed, and changes its own copy likewise.
    pub(crate) removed: bool,
    /// The operation brings an abandoned file into order.
    pub(crate) adopting: bool,
}

/// What clients are told of an object whose primary is lost, if they are not to wait.
fn lost() -> Error {
    Error::Io("the replica that decides about it is lost; see `meridian frozen`".into())
}

/// The answer of a replica that is not primary, and does not forward what was forwarded.
fn not_primary() -> Error {
    Error::Refused(0)
}

impl ReplicatedFileSystem {
    /// Whether this replica may answer now.
    fn may_answer(&self) -> bool {
        let shared = &self.shared;
        shared.engine.is_alone() || (shared.is_whole() && shared.lease.may_answer())
    }

    /// Waits until this replica may answer (rule 22), or says why it does not.
    async fn wait_for_lease(&self, deadline: Instant) -> Result<()> {
        if self.shared.is_witness {
            let why = "this server is a witness, which keeps no contents; use a server that keeps the tree";
            return Err(Error::Io(why.into()));
        }
        if self.may_answer() {
            return Ok(());
        }
        if self.shared.is_removed() {
            return Err(Error::Io(REMOVED.into()));
        }
        if self.forwarded {
            return Err(not_primary());
        }
        let shared = &self.shared;
        let whole = async {
            let mut held = shared.held.subscribe();
            // The sender lives in `shared`.
            let _ = held.wait_for(|held| *held == Held::Everything).await;
            shared.lease.answerable().await;
        };
        let waited = tokio::time::timeout_at(deadline, whole);
        tokio::select! {
            waited = waited => waited.map_err(|_| Error::Delay),
            () = shared.lease.ended() => Err(Error::Io(REMOVED.into())),
            () = self.given_up() => {
                let why = "no majority of the replicas is in contact with this one";
                Err(Error::Io(why.into()))
            }
        }
    }

    /// Returns when clients are to be told that it failed, because no majority is in contact. A restart, and a
    /// return into the view, are no reason.
    async fn given_up(&self) {
        let shared = &self.shared;
        if shared.settings.without_majority != WithoutMajority::Error {
            return std::future::pending().await;
        }
        let mut held = shared.held.subscribe();
        // The sender lives in `shared`.
        let _ = held.wait_for(|held| *held == Held::Everything).await;
        while !shared.is_cut_off() {
            // Whoever answers before puts it off; others may be needed when the set has changed.
            let next = shared.cut_off_at();
            let next = next.unwrap_or_else(|| Instant::now() + shared.settings.suspicion);
            tokio::time::sleep_until(next + AFTER).await;
        }
    }

    /// Whether the own copy may answer readers though it may be old.
    fn reads_stale(&self) -> bool {
        let shared = &self.shared;
        let chosen = shared.settings.without_majority == WithoutMajority::StaleReads;
        chosen
            && !self.forwarded
            && !shared.is_witness
            && shared.is_whole()
            && !self.may_answer()
            && !shared.lease.is_barred()
            && shared.is_cut_off()
    }

    /// Refuses what touches a file that is abandoned and waits to be adopted.
    fn check_adopted(&self, object: ObjectId) -> Result<()> {
        match !self.adopting && self.shared.store.is_abandoned(object) {
            true => Err(Error::Delay),
            false => Ok(()),
        }
    }

    /// Whether a replica is out of the view, so that what it controls is frozen.
    fn is_lost(&self, holder: ReplicaSlot) -> bool {
        !self.shared.lease.view().active.contains(&holder)
    }

    /// When a client is told to come again.
    fn deadline(&self) -> Instant {
        Instant::now() + self.shared.settings.patience
    }

    /// The replica to which an operation on this object goes; `None` when it is answered here (rule 20).
    pub(crate) fn holder(&self, object: ObjectId) -> Option<ReplicaSlot> {
        let engine = &self.shared.engine;
        if !engine.anything_foreign() {
            return None;
        }
        let foreign = engine.with_core(|guard| guard.foreign_control(object));
        foreign.map(|name| name.holder)
    }

    /// Another replica whose copy may be read when the own disk fails; the own one is looked at.
    fn good_copy(&self, object: ObjectId) -> Option<ReplicaSlot> {
        if self.forwarded {
            return None;
        }
        self.shared.scrub.suspect(object);
        self.shared.holders_in_contact().first().copied()
    }

    /// Waits until a content that the disk has damaged is got back from another replica.
    async fn mended(&self, file: ObjectId, deadline: Instant) -> Result<()> {
        let shared = &self.shared;
        if !shared.store.is_damaged(file) {
            return Ok(());
        }
        let is_mended = |_: &mut Guard<'_>| (!shared.store.is_damaged(file)).then_some(());
        let mended = shared.engine.until(is_mended);
        let mended = tokio::time::timeout_at(deadline, mended).await;
        mended.map_err(|_| {
            let why = "its content is damaged, and no other replica has it; see `meridian status`";
            Error::Io(why.into())
        })
    }

    /// What the local copy says of an object.
    async fn local(&self, object: ObjectId) -> Result<Attributes> {
        self.shared.store.attributes(object).await
    }

    /// Where to look for what the local copy did not know a moment ago.
    async fn absence(&self, objects: &[ObjectId]) -> Absence {
        for object in objects {
            if self.local(*object).await == Err(Error::Stale) {
                let maker = object.slot();
                let other = maker != self.shared.slot()
                    && self.shared.is_member(maker)
                    && !self.shared.is_given_up(maker);
                return match other {
                    true => Absence::Elsewhere(maker),
                    false => Absence::Gone,
                };
            }
        }
        Absence::Arrived
    }

    /// Answers from the copy that is right: the primary's, or else the local one. The first of `objects` is
    /// the one that decides.
    async fn look<T, F>(
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
        let mut arrived = false;
        loop {
            if self.reads_stale() {
                return attempt().await;
            }
            self.wait_for_lease(deadline).await?;
            if let Some(place) = self.removed_place(objects[0]) {
                match self
                    .at_home(objects[0], place, &operation, deadline)
                    .await?
                {
                    AtHome::Done(value) => return Ok(value),
                    AtHome::Here => {
                        self.check_removed(objects[0])?;
                        return attempt().await;
                    }
                    AtHome::Again => continue,
                }
            }
            let holder = objects.iter().find_map(|object| self.holder(*object));
            let elsewhere = match holder {
                Some(holder) if self.shows_frozen() && self.is_lost(holder) => {
                    return attempt().await;
                }
                Some(holder) => holder,
                None if objects.iter().any(|id| self.check_adopted(*id).is_err()) => {
                    return Err(Error::Delay);
                }
                None => match attempt().await {
                    Err(Error::Io(why)) => match self.good_copy(objects[0]) {
                        Some(other) => other,
                        None => return Err(Error::Io(why)),
                    },
                    // The copy was read with a lease, or else it is read again.
                    Ok(_) if !self.may_answer() => continue,
                    Err(Error::Stale) if !self.forwarded => match self.absence(objects).await {
                        Absence::Elsewhere(maker) => maker,
                        Absence::Arrived if !arrived => {
                            arrived = true;
                            continue;
                        }
                        _ => return Err(Error::Stale),
                    },
                    outcome => return outcome,
                },
            };
            if let Some(value) = self.hand_over(elsewhere, &operation, deadline).await? {
                return Ok(value);
            }
        }
    }

    /// Carries a change out as soon as this replica may, or has the primary carry it out. `directory` is
    /// the object whose primary decides; `others` have to be known here as well.
    async fn change<T, F>(
        &self,
        object: ObjectId,
        others: &[ObjectId],
        attempt: impl Fn() -> F + Send + Sync,
        operation: impl Fn() -> Operation + Send + Sync,
    ) -> Result<T>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
    {
        if self.shared.engine.is_alone() {
            return attempt().await;
        }
        let deadline = self.deadline();
        if let Some(unanswered) = self.shared.outcomes.take(&operation, Instant::now()) {
            let found = self.find_out(operation(), unanswered, deadline);
            if let Some(value) = found.await? {
                return Ok(value);
            }
        }
        let mut arrived = false;
        loop {
            self.wait_for_lease(deadline).await?;
            if let Some(place) = self.removed_place(object) {
                let done = self.change_removed(object, place, &attempt, &operation, deadline);
                match done.await? {
                    Some(value) => return Ok(value),
                    None => continue,
                }
            }
            let elsewhere = match self.attempt(object, others, &attempt, deadline).await? {
                Attempt::Done(outcome) => return self.answered(object, outcome).await,
                Attempt::Elsewhere(holder) => holder,
                Attempt::Again => continue,
                Attempt::Arrived if arrived => return Err(Error::Stale),
                Attempt::Arrived => {
                    arrived = true;
                    continue;
                }
            };
            if let Some(value) = self.hand_over(elsewhere, &operation, deadline).await? {
                return Ok(value);
            }
        }
    }

    async fn attempt<T, F>(
        &self,
        object: ObjectId,
        others: &[ObjectId],
        attempt: impl Fn() -> F + Send + Sync,
        deadline: Instant,
    ) -> Result<Attempt<T>>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        // What another replica controls must not be judged by the local copy, not even to refuse it.
        if self.holder(object).is_some()
            && let Some(elsewhere) = self.claim(object, deadline).await?
        {
            return Ok(Attempt::Elsewhere(elsewhere));
        }
        match attempt().await {
            Err(Error::Refused(number)) => match self.verdict(number, deadline).await? {
                Verdict::Admitted => Ok(Attempt::Again),
                Verdict::Elsewhere(holder) => Ok(Attempt::Elsewhere(holder)),
            },
            Err(Error::Stale) if !self.forwarded => {
                let objects: Vec<ObjectId> = [object].iter().chain(others).copied().collect();
                match self.absence(&objects).await {
                    Absence::Elsewhere(maker) => Ok(Attempt::Elsewhere(maker)),
                    Absence::Arrived => Ok(Attempt::Arrived),
                    Absence::Gone => Ok(Attempt::Done(Err(Error::Stale))),
                }
            }
            outcome => Ok(Attempt::Done(outcome)),
        }
    }

    /// Asks for control of one object that another replica has. Returns the replica to hand the operation
    /// to, or `None` when control has come here.
    async fn claim(&self, object: ObjectId, deadline: Instant) -> Result<Option<ReplicaSlot>> {
        let subject = match self.local(object).await {
            Ok(attributes) => subject_of(&attributes),
            // Not known yet; whoever controls it knows.
            Err(_) => return Ok(self.holder(object)),
        };
        self.acquire(&Update::Change(subject), deadline).await
    }

    /// Submits a change that is to be made later, and waits for the verdict: `None` when this replica has
    /// control.
    async fn acquire(&self, update: &Update, deadline: Instant) -> Result<Option<ReplicaSlot>> {
        let covered = self.shared.engine.with_core(|guard| {
            let admission = guard.try_admit(update);
            admission.map_or_else(|| Err(guard.submit(update)), |_| Ok(()))
        });
        match covered {
            Ok(()) => Ok(None),
            Err(Error::Refused(number)) => match self.verdict(number, deadline).await? {
                Verdict::Admitted => Ok(None),
                Verdict::Elsewhere(holder) => Ok(Some(holder)),
            },
            Err(error) => Err(error),
        }
    }

    /// Waits for what becomes of an operation that control refused for now.
    async fn verdict(&self, number: u64, deadline: Instant) -> Result<Verdict> {
        let Some(verdict) = self.shared.engine.verdict(number) else {
            // A refusal of the primary's, which came back through a forward.
            return Err(Error::Delay);
        };
        match tokio::time::timeout_at(deadline, verdict).await {
            Ok(Ok(verdict)) => Ok(verdict),
            _ => Err(Error::Delay),
        }
    }

    /// Has another replica carry the operation out; `None` when it is not primary either, and some time
    /// has passed.
    async fn hand_over<T: Expected>(
        &self,
        to: ReplicaSlot,
        operation: impl Fn() -> Operation,
        deadline: Instant,
    ) -> Result<Option<T>> {
        self.hand(to, (operation, false), deadline).await
    }

    /// The same; `removed`: of a file of which is known here that it was removed.
    async fn hand<T: Expected>(
        &self,
        to: ReplicaSlot,
        (operation, removed): (impl Fn() -> Operation, bool),
        deadline: Instant,
    ) -> Result<Option<T>> {
        if self.forwarded {
            return Err(not_primary());
        }
        if Instant::now() > deadline {
            return Err(Error::Delay);
        }
        if self.is_lost(to) {
            if self.shared.settings.frozen == Frozen::Error {
                return Err(lost());
            }
        } else {
            match self
                .shared
                .forward(to, (operation(), removed), deadline)
                .await?
            {
                Handed::Done(value) => return expected(value).map(Some),
                Handed::NotPrimary => {}
                Handed::Unanswered(unanswered) => {
                    return self.find_out(operation(), unanswered, deadline).await;
                }
            }
        }
        let mut notifications = self.shared.engine.notifications();
        // Whether something happened or time passed makes no difference.
        let _ = tokio::time::timeout(PAUSE, notifications.changed()).await;
        Ok(None)
    }

    /// What to answer for a forward that got no answer: `None` when nothing has come of it, and it is to be
    /// tried again. As long as nobody knows, the object waits for the lost replica like any other of its own.
    async fn find_out<T: Expected>(
        &self,
        mut operation: Operation,
        unanswered: Unanswered,
        deadline: Instant,
    ) -> Result<Option<T>> {
        let (shared, by) = (&self.shared, unanswered.by.slot);
        let request = operation.request().copied();
        let in_vain = async {
            match shared.settings.frozen {
                Frozen::Error => shared.lease.lost(by).await,
                _ => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = tokio::time::timeout_at(deadline, shared.outcome(&unanswered)) => outcome,
            () = in_vain => return Err(lost()),
        };
        let answer = async {
            let Ok(Outcome::Done(position)) = outcome else {
                return outcome.map(|_| None).map_err(|_| Error::Uncertain);
            };
            self.wait_for_lease(deadline).await?;
            let value = shared.answer_for(operation, by, position).await?;
            expected(value).map(Some)
        };
        // It was carried out, or nobody knows, so the client must not ask as if it were something new.
        let answer = answer.await.map_err(|error| match error {
            Error::Delay => Error::Uncertain,
            error => error,
        });
        if let (Err(Error::Uncertain), Some(request)) = (&answer, request) {
            let now = Instant::now();
            shared.outcomes.remember(request, unanswered, now);
        }
        answer
    }

    /// Whether readers get what the own copy has of objects whose primary is lost.
    fn shows_frozen(&self) -> bool {
        !self.forwarded && self.shared.settings.frozen == Frozen::LastSynchronised
    }

    /// What has to be waited for before a change is answered. Without a lease it is not: either the lease is
    /// renewed, or the others go on without this replica and decide what becomes of the change.
    async fn answered<T>(&self, object: ObjectId, outcome: Result<T>) -> Result<T> {
        let held = async {
            self.shared.engine.demands_met().await;
            self.shared.hold_by_majority(object).await;
            if !self.shared.engine.is_alone() {
                self.shared.lease.answerable().await;
            }
        };
        if outcome.is_ok() {
            tokio::select! {
                () = held => {}
                // Nobody will ever say what became of it.
                () = self.shared.lease.ended() => return Err(Error::Io(REMOVED.into())),
            }
        }
        outcome
    }
}

enum Attempt<T> {
    Done(Result<T>),
    Elsewhere(ReplicaSlot),
    Again,
    /// What was missing has come meanwhile.
    Arrived,
}

/// Why the local copy did not know an object.
enum Absence {
    /// This replica made it, and its update is on its way, unless the object is gone.
    Elsewhere(ReplicaSlot),
    /// It is here now.
    Arrived,
    Gone,
}

fn expected<T: Expected>(value: Value) -> Result<T> {
    T::from_value(value).ok_or_else(|| Error::Io("a peer answered another question".into()))
}
