//! What becomes of a forwarded operation that was never answered (rule 18): waiting until this is certain, and the answer then.
//!
//! What must never enter: how operations travel, and which replica is primary.

use control::Epoch;
use vfs::{Error, ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;
use crate::frontend::durability;
use crate::state::forward::{self, Operation, Value};
use crate::state::outcomes::{Outcome, Unanswered};
use crate::state::settings::Durability;

/// Told for a request that was carried out, if the record of what it did is lost.
const FORGOTTEN: &str =
    "a change was made whose record is lost, so its client cannot be told what it did";

/// Returns when it is certain what became of a forward.
pub(crate) async fn outcome(replica: &LocalReplica, of: &Unanswered) -> Outcome {
    replica
        .engine
        .until(|| {
            // First whether everything of the lost replica is here; then whether it contains this operation.
            let everything = has_all_of(replica, of);
            match of.watch.applied() {
                Some(position) => Some(Outcome::Done(position)),
                None => everything.then_some(Outcome::Nothing),
            }
        })
        .await
}

/// Whether nothing more can come of a forward: everything that its receiver did by then is here, or was given up.
fn has_all_of(replica: &LocalReplica, of: &Unanswered) -> bool {
    let slot = of.by.slot;
    let view = replica.lease.view();
    let since = view.since.get(&slot).copied().unwrap_or(Epoch(0));
    if view.active.contains(&slot) && since > of.epoch && replica.state.outcomes.is_still(of.by) {
        // If it had carried anything out, it would have had to restart.
        return true;
    }
    if replica
        .view_state()
        .is_some_and(|state| state.is_gone(slot))
    {
        // All survivors had everything of it that counts before its removal.
        return true;
    }
    let applied = replica
        .state
        .inboxes
        .get(slot)
        .map_or(0, |inbox| inbox.applied());
    let behind = replica.state.outcomes.left_behind(of.by);
    let behind = behind.or_else(|| settled_through(replica, slot));
    behind.is_some_and(|through| applied >= through)
}

/// The position up to which a lost replica's stream counts, once that is decided.
fn settled_through(replica: &LocalReplica, slot: ReplicaSlot) -> Option<u64> {
    let end = replica.view_state()?.stream_end(slot)?;
    Some(end.through)
}

/// What to answer for an operation that was carried out elsewhere: what its maker recorded with the change, which is here. The same name may by
/// now be another object, of another client.
pub(crate) async fn answer_for(
    replica: &LocalReplica,
    mut operation: Operation,
    by: ReplicaSlot,
    position: u64,
) -> Result<Value> {
    held_as_asked(replica, &operation, by, position).await?;
    match operation.request() {
        Some(request) => request.repeat_only = true,
        // Repeating it gives the same result.
        None => return Err(Error::Delay),
    }
    match forward::perform(&*replica.store, operation).await {
        Err(Error::NotCarriedOut) => Err(Error::Io(FORGOTTEN.into())),
        answer => answer,
    }
}

/// Returns when an update of another replica's stream may be acknowledged: it is stable here, and a majority has it if that is asked for.
async fn held_as_asked(
    replica: &LocalReplica,
    operation: &Operation,
    by: ReplicaSlot,
    position: u64,
) -> Result<()> {
    replica.store.wait_all_stable().await?;
    let Some(object) = operation.repeated_on() else {
        return Ok(());
    };
    if durability::setting_of(replica, object).await.0 == Durability::Relaxed {
        return Ok(());
    }
    replica
        .engine
        .until(|| {
            // Its maker has it. If the maker is lost, all survivors have it.
            let having = replica.state.peers.news().into_iter().filter(|(_, news)| {
                let mut applied = news.said.iter().flat_map(|(request, _)| &request.applied);
                applied.any(|(of, at)| *of == by.0 && *at >= position)
            });
            let having = having.map(|(slot, _)| slot).chain([by]).collect();
            let enough = replica.engine.is_majority(&having);
            (enough || settled_through(replica, by).is_some()).then_some(())
        })
        .await;
    Ok(())
}
