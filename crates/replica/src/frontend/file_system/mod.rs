//! Where operations come in: from this server's clients, and forwarded from other replicas.
//!
//! Each operation is carried out here, handed to the replica that controls what it touches, or waits until this replica controls it. One loop in
//! `carry_out` does that. The file system itself is in `files`; here is what its operations share.

mod beside;
mod carry_out;
mod files;
mod names;
mod opens;
mod pin;
mod reads;
mod removed;
mod told;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control::Update;
use store::Store;
use tokio::time::Instant;
use vfs::{Attributes, Error, FileSystem, ObjectId, ReplicaSlot, Result};

use crate::driver::commit_hook::AdmissionHook;
use crate::driver::control::Admitted;
use crate::driver::local_replica::LocalReplica;
use crate::driver::tree::subject_of;
use crate::frontend::durability;
use crate::frontend::forwarding;
use crate::frontend::outcomes;
use crate::state::copies::Held;
use crate::state::forward::{Expected, Operation, Value};
use crate::state::ledger::{PendingVerdict, Verdict};
use crate::state::members::REMOVED;
use crate::state::outcomes::{Handed, Outcome, Unanswered};
use crate::state::settings::{Frozen, WithoutMajority};
use crate::state::wire::Origin;

/// A moment is surely over after this extra time.
const AFTER: Duration = Duration::from_millis(1);

/// The replicated tree as a file system.
pub(crate) struct ReplicatedFileSystem {
    pub(crate) replica: Arc<LocalReplica>,
    /// The operation comes from another replica and goes no further (rule 18).
    forwarding: Option<Forwarding>,
    /// How long an operation is tried.
    patience: Duration,
}

/// What is known of a forwarded operation.
struct Forwarding {
    origin: Origin,
    /// The sender knows that the file was removed, and changes its own copy likewise.
    removed: bool,
    /// This replica turned out not to be primary, so nothing has happened.
    not_primary: AtomicBool,
}

/// What clients are told about an object whose primary is lost, unless they wait.
fn lost() -> Error {
    Error::Io("the replica that decides about it is lost; see `meridian frozen`".into())
}

impl ReplicatedFileSystem {
    /// For operations of this server's clients, and of the replica itself.
    pub(crate) fn new(replica: Arc<LocalReplica>) -> ReplicatedFileSystem {
        ReplicatedFileSystem {
            patience: replica.state.settings.patience,
            replica,
            forwarding: None,
        }
    }

    /// The same, for one of many changes that the replica itself tries again later.
    pub(crate) fn impatient(
        replica: Arc<LocalReplica>,
        patience: Duration,
    ) -> ReplicatedFileSystem {
        ReplicatedFileSystem {
            patience,
            ..ReplicatedFileSystem::new(replica)
        }
    }

    /// For one operation that another replica has forwarded. `removed`: the sender knows that the file was removed.
    pub(crate) fn forwarded(
        replica: Arc<LocalReplica>,
        origin: Origin,
        removed: bool,
    ) -> ReplicatedFileSystem {
        let forwarding = Forwarding {
            origin,
            removed,
            not_primary: AtomicBool::new(false),
        };
        ReplicatedFileSystem {
            forwarding: Some(forwarding),
            ..ReplicatedFileSystem::new(replica)
        }
    }

    fn is_forwarded(&self) -> bool {
        self.forwarding.is_some()
    }

    /// Ends a forwarded operation that this replica may not carry out. The sender is told so, and never sees the error; see
    /// [`ReplicatedFileSystem::was_not_primary`].
    fn not_primary(&self) -> Error {
        if let Some(forwarding) = &self.forwarding {
            forwarding.not_primary.store(true, Ordering::Relaxed);
        }
        Error::Delay
    }

    /// Whether a forwarded operation failed because this replica is not primary.
    pub(crate) fn was_not_primary(&self) -> bool {
        let forwarding = self.forwarding.as_ref();
        forwarding.is_some_and(|forwarding| forwarding.not_primary.load(Ordering::Relaxed))
    }

    /// The commit hook of one attempt at the operation.
    fn hook(&self) -> AdmissionHook {
        let origin = self.forwarding.as_ref().map(|forwarding| forwarding.origin);
        AdmissionHook::new(&self.replica.engine, origin)
    }

    /// The local copy, for an operation that should not need control.
    fn store(&self) -> Store {
        self.replica.store.with_hook(Arc::new(self.hook()))
    }

    /// Whether this replica may answer now.
    fn may_answer(&self) -> bool {
        let replica = &self.replica;
        replica.engine.is_alone() || (replica.is_whole() && replica.lease.may_answer())
    }

    /// Waits until this replica may answer (rule 22), or says why it does not.
    async fn wait_for_lease(&self, deadline: Instant) -> Result<()> {
        if self.replica.state.is_witness {
            let why = "this server is a witness, which keeps no contents; use a server that keeps the tree";
            return Err(Error::Io(why.into()));
        }
        if self.may_answer() {
            return Ok(());
        }
        if self.replica.state.members.is_removed() {
            return Err(Error::Io(REMOVED.into()));
        }
        if self.is_forwarded() {
            return Err(self.not_primary());
        }
        let replica = &self.replica;
        let whole = async {
            let mut held = replica.state.held.subscribe();
            // The sender lives in `LocalReplica`.
            let _ = held.wait_for(|held| *held == Held::Everything).await;
            replica.lease.answerable().await;
        };
        let waited = tokio::time::timeout_at(deadline, whole);
        tokio::select! {
            waited = waited => waited.map_err(|_| Error::Delay),
            () = replica.lease.ended() => Err(Error::Io(REMOVED.into())),
            () = self.given_up() => {
                let why = "no majority of the replicas is in contact with this one";
                Err(Error::Io(why.into()))
            }
        }
    }

    /// The same for a change. It also waits while the memory kept for a member is full.
    async fn wait_to_change(&self, deadline: Instant) -> Result<()> {
        self.wait_for_lease(deadline).await?;
        let waited = self.replica.wait_for_slow(deadline).await;
        // The replica that forwarded it may ask again as if for the first time.
        waited.map_err(|error| match self.is_forwarded() {
            true => self.not_primary(),
            false => error,
        })
    }

    /// Returns when clients must be told of a failure because no majority is in contact. A restart or a return into the view is no reason.
    async fn given_up(&self) {
        let replica = &self.replica;
        if replica.state.settings.without_majority != WithoutMajority::Error {
            return std::future::pending().await;
        }
        let mut held = replica.state.held.subscribe();
        // The sender lives in `LocalReplica`.
        let _ = held.wait_for(|held| *held == Held::Everything).await;
        while !replica.is_cut_off() {
            // An answering replica delays this moment; after a change of the set, other replicas may count.
            let next = replica.cut_off_at();
            let next = next.unwrap_or_else(|| Instant::now() + replica.state.settings.suspicion);
            tokio::time::sleep_until(next + AFTER).await;
        }
    }

    /// Whether the local copy may answer readers although it may be old.
    fn reads_stale(&self) -> bool {
        let replica = &self.replica;
        let chosen = replica.state.settings.without_majority == WithoutMajority::StaleReads;
        chosen
            && !self.is_forwarded()
            && !replica.state.is_witness
            && replica.is_whole()
            && !self.may_answer()
            && !replica.lease.is_barred()
            && replica.is_cut_off()
    }

    /// Refuses operations on an abandoned file that waits to be adopted, and on one of which a member's data gave way here: that comes again, or a copy
    /// that has it (counterexample 110).
    fn check_content(&self, object: ObjectId) -> Result<()> {
        if self.replica.store.is_abandoned(object) {
            return Err(Error::Delay);
        }
        let given_way = self.replica.store.given_way(object);
        // What a removed member had counts no more.
        let mut makers =
            (given_way.into_iter()).filter(|one| self.replica.state.members.is_member(*one));
        match makers.next() {
            None => Ok(()),
            Some(maker) => Err(self.lacks_of(maker)),
        }
    }

    /// What is said while data of a member is missing.
    fn lacks_of(&self, maker: ReplicaSlot) -> Error {
        match self.replica.state.settings.frozen {
            Frozen::Error if self.is_lost(maker) => lost(),
            _ => Error::Delay,
        }
    }

    /// Whether a replica is outside the view, so that what it controls is frozen.
    fn is_lost(&self, holder: ReplicaSlot) -> bool {
        !self.replica.lease.view().active.contains(&holder)
    }

    /// When a client is told to try again.
    fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// Breaks an operation off then: one that another replica carries out may take longer. Only for operations that may be repeated.
    async fn within_patience(&self, operation: impl Future<Output = Result<()>>) -> Result<()> {
        let outcome = tokio::time::timeout_at(self.deadline(), operation).await;
        outcome.unwrap_or(Err(Error::Delay))
    }

    /// The replica to which an operation on this object goes; `None` if this replica answers it (rule 20).
    pub(crate) fn holder(&self, object: ObjectId) -> Option<ReplicaSlot> {
        let engine = &self.replica.engine;
        engine.foreign_primary(object)
    }

    /// Another replica whose copy may be read when the local disk fails. The local copy is checked.
    fn good_copy(&self, object: ObjectId) -> Option<ReplicaSlot> {
        if self.is_forwarded() {
            return None;
        }
        self.replica.state.scrub.suspect(object);
        self.replica.holders_in_contact().first().copied()
    }

    /// Waits until content that the disk has damaged is restored from another replica.
    async fn mended(&self, file: ObjectId, deadline: Instant) -> Result<()> {
        let replica = &self.replica;
        if !replica.store.is_damaged(file) {
            return Ok(());
        }
        let is_mended = || (!replica.store.is_damaged(file)).then_some(());
        let mended = replica.engine.until(is_mended);
        let mended = tokio::time::timeout_at(deadline, mended).await;
        mended.map_err(|_| {
            let why = "its content is damaged, and no other replica has it; see `meridian status`";
            Error::Io(why.into())
        })
    }

    /// What the local copy says of an object.
    async fn local(&self, object: ObjectId) -> Result<Attributes> {
        self.replica.store.attributes(object).await
    }

    /// Where to look for an object that the local copy did not know a moment ago.
    async fn absence(&self, objects: &[ObjectId]) -> Absence {
        for object in objects {
            if self.local(*object).await == Err(Error::Stale) {
                let maker = object.slot();
                let other = maker != self.replica.slot()
                    && self.replica.state.members.is_member(maker)
                    && !self.replica.is_given_up(maker);
                return match other {
                    true => Absence::Elsewhere(maker),
                    false => Absence::Gone,
                };
            }
        }
        Absence::Arrived
    }

    /// Asks for control of one object that another replica has. Returns the replica that must carry out the operation, or `None` when control
    /// has come here.
    async fn claim(&self, object: ObjectId, deadline: Instant) -> Result<Option<ReplicaSlot>> {
        let subject = match self.local(object).await {
            Ok(attributes) => subject_of(&attributes),
            // Not known yet; the replica that controls it knows.
            Err(_) => return Ok(self.holder(object)),
        };
        self.acquire(&Update::Change(subject), deadline).await
    }

    /// Submits a later change, and waits for the verdict: `None` if this replica has control.
    async fn acquire(&self, update: &Update, deadline: Instant) -> Result<Option<ReplicaSlot>> {
        let admitted = self.replica.engine.admit(update);
        let verdict = match admitted {
            Admitted::Now(_) => return Ok(None),
            Admitted::Later(verdict) => verdict_by(verdict, deadline).await?,
            Admitted::Never => return Err(Error::Delay),
        };
        match verdict {
            Verdict::Admitted => Ok(None),
            Verdict::Elsewhere(holder) => Ok(Some(holder)),
        }
    }

    /// Makes another replica carry the operation out; `None` if that is not primary either. `removed`: this replica knows that the file was
    /// removed.
    async fn hand_over<T: Expected>(
        &self,
        to: ReplicaSlot,
        (operation, removed): (impl Fn() -> Operation, bool),
        deadline: Instant,
    ) -> Result<Option<T>> {
        if self.is_forwarded() {
            return Err(self.not_primary());
        }
        if Instant::now() > deadline {
            return Err(Error::Delay);
        }
        if self.is_lost(to) {
            return match self.replica.state.settings.frozen {
                Frozen::Error => Err(lost()),
                _ => Ok(None),
            };
        }
        let forwarded = forwarding::forward(&self.replica, to, (operation(), removed), deadline);
        match forwarded.await? {
            Handed::Done(value) => {
                self.note_told(&operation, &value).await;
                expected(value).map(Some)
            }
            Handed::NotPrimary => Ok(None),
            Handed::Unanswered(unanswered) => {
                self.find_out(operation(), unanswered, deadline).await
            }
        }
    }

    /// What to answer for a forward without an answer: `None` if it had no effect and must be tried again. While this is unknown, the object
    /// waits for the lost replica like all its objects.
    async fn find_out<T: Expected>(
        &self,
        mut operation: Operation,
        unanswered: Unanswered,
        deadline: Instant,
    ) -> Result<Option<T>> {
        let (replica, by) = (&self.replica, unanswered.by.slot);
        let request = operation.request().copied();
        let in_vain = async {
            match replica.state.settings.frozen {
                Frozen::Error => replica.lease.lost(by).await,
                _ => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = tokio::time::timeout_at(deadline, outcomes::outcome(replica, &unanswered)) => outcome,
            () = in_vain => return Err(lost()),
        };
        let answer = async {
            let Ok(Outcome::Done(position)) = outcome else {
                return outcome.map(|_| None).map_err(|_| Error::Uncertain);
            };
            self.wait_for_lease(deadline).await?;
            let value = outcomes::answer_for(replica, operation, by, position).await?;
            expected(value).map(Some)
        };
        // It was carried out, or this is unknown, so the client must not repeat it as a new request.
        let answer = answer.await.map_err(|error| match error {
            Error::Delay if !self.was_not_primary() => Error::Uncertain,
            error => error,
        });
        if let (Err(Error::Uncertain), Some(request)) = (&answer, request) {
            let now = Instant::now();
            replica.state.outcomes.remember(request, unanswered, now);
        }
        answer
    }

    /// Whether readers get the local copy of objects whose primary is lost.
    fn shows_frozen(&self) -> bool {
        !self.is_forwarded() && self.replica.state.settings.frozen == Frozen::LastSynchronised
    }

    /// Waits for what a change needs before its answer. Without a lease it keeps waiting: either the lease is renewed, or the others go on
    /// without this replica and decide about the change.
    async fn answered<T>(&self, object: ObjectId, outcome: Result<T>) -> Result<T> {
        let held = async {
            self.replica.engine.demands_met().await;
            durability::hold_by_majority(&self.replica, object).await;
            if !self.replica.engine.is_alone() {
                self.replica.lease.answerable().await;
            }
        };
        if outcome.is_ok() {
            tokio::select! {
                () = held => {}
                // No replica will ever say what became of it.
                () = self.replica.lease.ended() => return Err(Error::Io(REMOVED.into())),
            }
        }
        outcome
    }
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

/// The verdict on an operation that control refused for now.
async fn verdict_by(verdict: PendingVerdict, deadline: Instant) -> Result<Verdict> {
    match tokio::time::timeout_at(deadline, verdict).await {
        Ok(Ok(verdict)) => Ok(verdict),
        _ => Err(Error::Delay),
    }
}
