//! The part that only the leader runs: adding an entry to the log.
//!
//! What must never enter: the search for another leader. A member that is asked and does not lead says so.

use std::time::Duration;

use openraft::error::{ClientWriteError, RaftError};
use tokio::time::timeout;
use vfs::ReplicaSlot;

use super::Core;
use crate::decision::{Command, Decision, DecisionKind, Outcome};
use crate::raft::wire::Denial;

type WriteError = RaftError<u64, ClientWriteError<u64, openraft::EmptyNode>>;

impl Core {
    /// The timeout of [`Core::submit_here`], plus the way there and back.
    pub(super) fn submission_limit(&self, command: &Command) -> Duration {
        let settings = &self.settings;
        match command {
            Command::Decide(Decision {
                kind: DecisionKind::Configure { .. },
                ..
            }) => settings.newcomer_limit + settings.decision_limit * 4,
            _ => settings.decision_limit * 3,
        }
    }

    /// Decides as leader.
    pub(super) async fn submit_here(&self, command: Command) -> Result<Outcome, Denial> {
        if self.leader() != Some(self.slot) {
            return Err(Denial::NotLeader);
        }
        let changes_configuration = |decision: &Decision| {
            matches!(
                decision.kind,
                DecisionKind::Configure { .. } | DecisionKind::Remove { .. }
            )
        };
        if let Command::Decide(decision) = &command
            && changes_configuration(decision)
            && let Err(why) = self.warrant.check(decision)
        {
            return Ok(Outcome::Refused(why));
        }
        match command {
            Command::Decide(Decision {
                kind: DecisionKind::Configure { slot, .. },
                ..
            }) => self.configure(slot, command).await,
            command => {
                let outcome = self.write(command).await?;
                self.voters_follow().await;
                Ok(outcome)
            }
        }
    }

    /// Waits until an entry is agreed on and applied here.
    async fn write(&self, command: Command) -> Result<Outcome, Denial> {
        let written = timeout(
            self.settings.decision_limit,
            self.raft.client_write(command),
        );
        match written.await {
            Ok(Ok(written)) => Ok(written.data),
            Ok(Err(error)) => Err(denial(error)),
            Err(_elapsed) => Err(Denial::OutcomeUnknown),
        }
    }

    /// Adds a member. It must receive the log before it counts as configured, so that no majority includes a member
    /// that was never reachable.
    async fn configure(&self, slot: ReplicaSlot, command: Command) -> Result<Outcome, Denial> {
        let mut trial = (**self.state.borrow()).clone();
        if let refused @ Outcome::Refused(_) = trial.apply(&command) {
            return Ok(refused);
        }
        let _changing = self.voters.lock().await;
        let taught = self.teach(slot).await;
        let outcome = match taught {
            Ok(()) => self.write(command).await,
            Err(denial) => Err(denial),
        };
        if outcome != Ok(Outcome::Applied) {
            self.align().await;
        }
        outcome
    }
}

pub(super) fn denial(error: WriteError) -> Denial {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => Denial::NotLeader,
        RaftError::APIError(ClientWriteError::ChangeMembershipError(_)) => Denial::OutcomeUnknown,
        RaftError::Fatal(error) => Denial::Stopped(error.to_string()),
    }
}
