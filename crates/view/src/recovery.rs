//! For when the majority is gone for ever: changes the log of one survivor while its server is stopped.
//!
//! What must never enter: a check of which replicas are gone. The administrator decides that. If the replicas that were
//! given up still run and reach a majority of the old configuration, there are two sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openraft::EntryPayload;
use vfs::ReplicaSlot;

use crate::decision::{Command, Decision, DecisionKind, Outcome};
use crate::error::ViewError;
use crate::raft::log::Log;
use crate::raft::machine::Machine;
use crate::raft::types::{Entry, LogId, Membership, Vote, id};
use crate::stable_storage::StableStorage;
use crate::state::ViewState;

/// The last state in a storage that its replica knew to be agreed.
///
/// # Errors
/// The storage failed or is damaged.
pub async fn last_known(storage: Arc<dyn StableStorage>) -> Result<ViewState, ViewError> {
    let (_, machine) = open(storage).await?;
    let state = ViewState::clone(&machine.watch().borrow());
    Ok(state)
}

/// Makes the survivors the whole set. Runs at the survivor `by`, whose [`crate::Views`] must not run.
///
/// When `by` runs again, it leads, and the other survivors follow it when they hear of it. The decision is committed
/// once a majority of the survivors has it. Decisions that only the other replicas knew are lost. Choose the survivor
/// with the latest [`last_known`] epoch.
///
/// # Errors
/// The storage failed or is damaged, or the survivors do not match the configuration. Then nothing is changed.
pub async fn force(
    storage: Arc<dyn StableStorage>,
    survivors: BTreeSet<ReplicaSlot>,
    by: ReplicaSlot,
    at_unix_s: u64,
) -> Result<Outcome, ViewError> {
    let (log, machine) = open(storage).await?;
    let mut trial = ViewState::clone(&machine.watch().borrow());
    let decision = Decision {
        by,
        at_unix_s,
        seen_epoch: trial.epoch,
        kind: DecisionKind::Recover {
            survivors: survivors.clone(),
        },
    };
    if let Outcome::Refused(reason) = trial.decide(&decision) {
        return Ok(Outcome::Refused(reason));
    }
    let Some(last) = log.last().max(machine.applied()) else {
        return Err(ViewError::Damaged("the log is empty".to_owned()));
    };
    // The result is the same as if this replica had been elected, had written both entries, and had then crashed.
    let term = log.vote().map_or(0, |vote| vote.leader_id.term);
    let exhausted = || ViewError::Damaged("its terms or indices are used up".to_owned());
    let term = term.max(last.leader_id.term).checked_add(1);
    let vote = Vote::new_committed(term.ok_or_else(exhausted)?, id(by));
    let first = last.index.checked_add(1).ok_or_else(exhausted)?;
    let second = first.checked_add(1).ok_or_else(exhausted)?;
    let ids: BTreeSet<u64> = survivors.into_iter().map(id).collect();
    let membership = Membership::new(vec![ids], BTreeMap::new());
    let payloads = [
        EntryPayload::Membership(membership),
        EntryPayload::Normal(Command::Decide(decision)),
    ];
    let entry = |(index, payload)| Entry {
        log_id: LogId::new(vote.leader_id, index),
        payload,
    };
    let entries = [first, second].into_iter().zip(payloads).map(entry);
    let entries = entries.collect();
    log.store(entries, Some(vote)).await?;
    Ok(Outcome::Applied)
}

async fn open(storage: Arc<dyn StableStorage>) -> Result<(Log, Machine), ViewError> {
    let log = Log::open(Arc::clone(&storage)).await?;
    let mut machine = Machine::open(storage).await?;
    machine.carry_out(log.committed_after(machine.applied()));
    Ok((log, machine))
}
