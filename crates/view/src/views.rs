//! The functions for the owner: start, decide, answer a peer, read the state.
//!
//! What must never enter: the effect of a decision (`state`), and the library's types in a public signature.

mod keeper;
mod leading;
mod leaving;
mod silence;
mod voters;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use openraft::error::{InitializeError, RaftError};
use openraft::raft::{InstallSnapshotRequest, InstallSnapshotResponse};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use vfs::ReplicaSlot;

use crate::bytes::encode;
use crate::decision::{Command, Decision, DecisionKind, Outcome};
use crate::error::ViewError;
use crate::raft::credible::Limit;
use crate::raft::incoming::{Incoming, Unfit};
use crate::raft::log::Log;
use crate::raft::machine::Machine;
use crate::raft::network::{Matched, Network, ask};
use crate::raft::types::{Metrics, Raft, Types, config, id, slot};
use crate::raft::wire::{Answer, Denial, Request};
use crate::settings::Settings;
use crate::stable_storage::StableStorage;
use crate::state::{Kind, ViewState};
use crate::transport::{Transport, TransportError};
use crate::warrant::Warrant;

/// The part of one member in the agreement on views.
///
/// All members except the first of a set just start: the leader sends them the log when they are configured.
pub struct Views {
    core: Arc<Core>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// The state that the parts of this module share.
struct Core {
    slot: ReplicaSlot,
    settings: Settings,
    transport: Arc<dyn Transport>,
    warrant: Arc<dyn Warrant>,
    raft: Raft,
    state: watch::Receiver<Arc<ViewState>>,
    /// Held while this member changes the set of voters.
    voters: tokio::sync::Mutex<()>,
    /// While true, this member tells no other member that it leads.
    silent: Arc<AtomicBool>,
    /// The received parts of a snapshot.
    incoming: Mutex<Incoming>,
}

impl Views {
    /// Continues from the content of the storage. With an empty storage the member waits until it is configured.
    ///
    /// # Errors
    /// The storage cannot be read, or the settings contradict each other.
    pub async fn start(
        slot: ReplicaSlot,
        settings: Settings,
        transport: Arc<dyn Transport>,
        storage: Arc<dyn StableStorage>,
        warrant: Arc<dyn Warrant>,
    ) -> Result<Arc<Views>, ViewError> {
        let config = Arc::new(config(&settings)?);
        let log = Log::open(Arc::clone(&storage)).await?;
        let led = log.step_down(id(slot)).await?;
        let machine = Machine::open(storage).await?;
        let state = machine.watch();
        let silent = Arc::new(AtomicBool::new(false));
        let network = Network {
            own: slot,
            transport: Arc::clone(&transport),
            silent: Arc::clone(&silent),
            matched: Arc::new(Matched::default()),
        };
        let raft = Raft::new(id(slot), config, network, log, machine)
            .await
            .map_err(|error| ViewError::Stopped(error.to_string()))?;
        if led {
            // Saves time if the other members did not notice its absence. If this fails, the normal election timeout starts an election.
            let _ = raft.trigger().elect().await;
        }
        let core = Arc::new(Core {
            slot,
            settings,
            transport,
            warrant,
            raft,
            state,
            voters: tokio::sync::Mutex::new(()),
            silent,
            incoming: Mutex::default(),
        });
        let (keeping, speaking) = (
            keeper::keep(Arc::clone(&core)),
            silence::keep(Arc::clone(&core)),
        );
        let keeper = tokio::spawn(async {
            tokio::select! {
                () = keeping => {}
                () = speaking => {}
            }
        });
        Ok(Arc::new(Views {
            core,
            keeper: Mutex::new(Some(keeper)),
        }))
    }

    /// Founds the set at its first server: all founders are active in epoch 1. May be repeated after a partial failure.
    ///
    /// # Errors
    /// Like [`Views::decide`]. With several founders, a majority of them must run.
    pub async fn initialise(
        &self,
        founders: BTreeMap<ReplicaSlot, Kind>,
    ) -> Result<Outcome, ViewError> {
        let ids: BTreeSet<u64> = founders.keys().copied().map(id).collect();
        match self.core.raft.initialize(ids).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(error) => return Err(ViewError::Settings(error.to_string())),
        }
        let limit = self.core.settings.decision_limit;
        let led = self.core.raft.wait(Some(limit));
        let led = led.metrics(|metrics| self.core.leader_in(metrics).is_some(), "a leader");
        led.await.map_err(|_timeout| ViewError::NoLeader)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let command = Command::Found {
            founders,
            by: self.core.slot,
            at_unix_s: since.map_or(0, |since| since.as_secs()),
        };
        self.core.submit(command).await
    }

    /// The state as applied here. It may be behind the agreed state.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<Arc<ViewState>> {
        self.core.state.clone()
    }

    /// Answers a request that a peer's [`Transport`] delivered. `from` must be proven by its certificate.
    ///
    /// # Errors
    /// The request is invalid.
    pub async fn answer(&self, from: ReplicaSlot, request: Bytes) -> Result<Bytes, ViewError> {
        let limit = Limit::at(SystemTime::now());
        let request = Request::decode(from, &request, limit).map_err(ViewError::Message)?;
        let answer = self.core.answer(from, request).await;
        let answer = encode(&answer).map_err(ViewError::Message)?;
        Ok(answer.into())
    }

    /// Makes a decision through the leader, wherever it is.
    ///
    /// # Errors
    /// [`ViewError::NoLeader`]: nothing was decided, try again. [`ViewError::OutcomeUnknown`] and
    /// [`ViewError::LeaderUnreachable`]: it may have been decided; a repetition is then refused.
    pub async fn decide(&self, decision: Decision) -> Result<Outcome, ViewError> {
        let command = Command::Decide(decision);
        match self.core.refused(self.core.slot, &command) {
            Some(refused) => Ok(refused),
            None => self.core.submit(command).await,
        }
    }

    /// Returns the reason when this member stops taking part: its storage failed, or it was stopped. From then on it
    /// does not vote, lead or decide.
    pub async fn ended(&self) -> String {
        // The full metrics change with each heartbeat. The channel closes when Raft ends, which has recorded the reason by then.
        let mut changes = self.core.raft.server_metrics();
        while changes.changed().await.is_ok() {}
        let mut metrics = self.core.raft.metrics();
        let ended = metrics.wait_for(|metrics| metrics.running_state.is_err());
        match ended.await {
            Ok(metrics) => match &metrics.running_state {
                Err(fatal) => fatal.to_string(),
                Ok(()) => String::from("it ended"),
            },
            Err(closed) => closed.to_string(),
        }
    }

    /// The leader, as known here. A leader without recent answers from a majority does not count.
    #[must_use]
    pub fn leader(&self) -> Option<ReplicaSlot> {
        self.core.leader()
    }

    /// Stops taking part. When this returns, nothing is written to the storage any more.
    pub async fn stop(&self) {
        let keeper = self.keeper.lock();
        let keeper = keeper.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper {
            keeper.abort();
        }
        if let Err(error) = self.core.raft.shutdown().await {
            tracing::warn!(%error, "views did not stop in order");
        }
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        let keeper = self.keeper.get_mut();
        if let Some(keeper) = keeper.unwrap_or_else(PoisonError::into_inner).take() {
            keeper.abort();
        }
    }
}

impl Core {
    fn leader(&self) -> Option<ReplicaSlot> {
        self.leader_in(&self.raft.metrics().borrow())
    }

    /// Whether this member leads according to Raft. It may have no recent answers.
    fn leads(&self) -> bool {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow();
        metrics.current_leader == Some(metrics.id)
    }

    fn leader_in(&self, metrics: &Metrics) -> Option<ReplicaSlot> {
        if metrics.running_state.is_err() {
            return None;
        }
        let leader = metrics.current_leader.and_then(slot)?;
        let patience = self.settings.election_max * 2;
        let is_heard = metrics
            .millis_since_quorum_ack
            .is_some_and(|millis| Duration::from_millis(millis) < patience);
        (leader != self.slot || is_heard).then_some(leader)
    }

    /// Sends another member a request that it must answer as leader.
    async fn ask(
        &self,
        leader: ReplicaSlot,
        request: &Request,
        limit: Duration,
    ) -> Result<Answer, ViewError> {
        let answer = ask(&*self.transport, leader, request, limit).await;
        answer.map_err(|error| match error {
            TransportError::TimedOut => ViewError::OutcomeUnknown,
            error => ViewError::LeaderUnreachable { leader, error },
        })
    }

    /// Submits an entry to the leader, with at most one hop.
    async fn submit(&self, command: Command) -> Result<Outcome, ViewError> {
        let leader = self.leader().ok_or(ViewError::NoLeader)?;
        if leader == self.slot {
            return self.submit_here(command).await.map_err(ViewError::from);
        }
        let limit = self.submission_limit(&command);
        match self.ask(leader, &Request::Submit(command), limit).await? {
            Answer::Submitted(outcome) => outcome.map_err(ViewError::from),
            other => Err(unexpected(other)),
        }
    }

    /// What `from` may not decide, whatever the state: decisions in the name of another replica, and decisions of an
    /// administrator, which are written into the log of a stopped server ([`crate::force`]).
    fn refused(&self, from: ReplicaSlot, command: &Command) -> Option<Outcome> {
        let by = match command {
            Command::Found { by, .. } => *by,
            Command::Decide(decision) => decision.by,
        };
        let why = match command {
            _ if by != from => "a replica decides in its own name only",
            Command::Decide(Decision {
                kind: DecisionKind::Recover { .. },
                ..
            }) => "that is decided while the server stands still",
            Command::Decide(decision) => {
                return self.leaves_too_few(decision).map(Outcome::Refused);
            }
            Command::Found { .. } => return None,
        };
        Some(Outcome::Refused(why.to_owned()))
    }

    async fn answer(&self, from: ReplicaSlot, request: Request) -> Answer {
        let failed = |error: &dyn std::error::Error| Answer::Failed(error.to_string());
        match request {
            Request::Append(append) => match self.raft.append_entries(append).await {
                Ok(answer) => Answer::Append(answer),
                Err(error) => failed(&error),
            },
            Request::Vote(vote) => match self.raft.vote(vote).await {
                Ok(answer) => Answer::Vote(answer),
                Err(error) => failed(&error),
            },
            Request::Snapshot(part) => self.take_part(from, part).await,
            Request::Submit(command) => Answer::Submitted(match self.refused(from, &command) {
                Some(refused) => Ok(refused),
                None => self.submit_here(command).await,
            }),
        }
    }

    /// Takes a part of a snapshot, and installs the snapshot after the last part.
    async fn take_part(&self, from: ReplicaSlot, part: InstallSnapshotRequest<Types>) -> Answer {
        let asked = part.vote;
        let known = self.raft.metrics().borrow().vote;
        if known > asked {
            return Answer::Snapshot(Ok(InstallSnapshotResponse { vote: known }));
        }
        let taken = {
            let incoming = self.incoming.lock();
            let mut incoming = incoming.unwrap_or_else(PoisonError::into_inner);
            incoming.take(from, part)
        };
        match taken {
            Ok(None) => Answer::Snapshot(Ok(InstallSnapshotResponse { vote: known })),
            Ok(Some(whole)) => match self.raft.install_full_snapshot(asked, whole).await {
                Ok(answer) => Answer::Snapshot(Ok(answer.into())),
                Err(error) => Answer::Failed(error.to_string()),
            },
            Err(Unfit::Elsewhere(error)) => Answer::Snapshot(Err(error)),
            Err(Unfit::NoState(words)) => Answer::Failed(words),
        }
    }
}

fn unexpected(answer: Answer) -> ViewError {
    match answer {
        Answer::Failed(words) => ViewError::Stopped(words),
        _ => ViewError::Message("the answer is to another question".to_owned()),
    }
}

impl From<Denial> for ViewError {
    fn from(denial: Denial) -> ViewError {
        match denial {
            Denial::NotLeader => ViewError::NoLeader,
            Denial::OutcomeUnknown => ViewError::OutcomeUnknown,
            Denial::NewcomerUnreachable(slot) => ViewError::NewcomerUnreachable(slot),
            Denial::Stopped(words) => ViewError::Stopped(words),
        }
    }
}

impl Views {
    /// The voters in the library: one set, or two during a change. They follow the members within moments.
    #[must_use]
    pub fn voters(&self) -> Vec<BTreeSet<u64>> {
        let stored = self.core.raft.metrics().borrow().membership_config.clone();
        stored.membership().get_joint_config().clone()
    }
}

#[cfg(test)]
impl Views {
    /// The members that receive the log without a vote.
    pub(crate) fn listeners(&self) -> Vec<u64> {
        let stored = self.core.raft.metrics().borrow().membership_config.clone();
        stored.membership().learner_ids().collect()
    }
}
