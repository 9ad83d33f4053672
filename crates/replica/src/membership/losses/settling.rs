//! When a lost replica's controls may end, and how the set agrees on that.
//!
//! What must never enter: why they should end (`takeover`, `adopting`, `views`, and administrators).

use std::sync::Arc;
use std::time::Duration;

use view::{DecisionKind, Outcome, SettledBy, Settlement, ViewError};

use vfs::ReplicaSlot;

use super::closing;
use super::level::whole_here;
use crate::driver::local_replica::LocalReplica;
use crate::state::time::unix_seconds;

/// An administrator waits at most this long for the survivors' reports.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is missing before a lost replica's controls can end, for people.
pub(crate) fn waits_for(replica: &LocalReplica, lost: ReplicaSlot) -> Option<String> {
    if !replica.engine.is_settled() {
        return Some("not every member of the view has reported".to_owned());
    }
    let whole = whole_here(replica);
    // A lost replica that is back in contact sends more: an earlier level position is not enough.
    let place = replica.state.inboxes.acknowledged(lost);
    let here = whole.iter().find(|level| **level == (lost.0, place));
    let Some((_, through)) = here else {
        return Some("this server brings its copy level with the others'".to_owned());
    };
    let epoch = replica.lease.view().epoch.0;
    let news = replica.state.peers.news();
    let behind = replica.holders().into_iter().find(|slot| {
        let said = news.get(slot).and_then(|news| news.said.as_ref());
        !said.is_some_and(|(request, _)| {
            request.epoch == epoch && request.whole.contains(&(lost.0, *through))
        })
    });
    behind.map(|slot| format!("replica {} brings its copy level with the others'", slot.0))
}

/// Closes a lost replica's stream on all members. Waits until they have reported this, and have the same of it since then.
///
/// # Errors
/// Which member has not done so in time, for people.
pub(crate) async fn close_everywhere(
    replica: &Arc<LocalReplica>,
    lost: ReplicaSlot,
) -> Result<(), String> {
    closing::close(replica, lost);
    let is_open = || closing::open_at(replica, lost).or_else(|| waits_for(replica, lost));
    let closed = replica.engine.until(|| is_open().is_none().then_some(()));
    let in_time = tokio::time::timeout(PATIENCE, closed).await;
    match in_time.err().and_then(|_elapsed| is_open()) {
        Some(why) => Err(format!("not yet: {why}; try again in a few seconds")),
        None => Ok(()),
    }
}

/// Ends a lost replica's controls, once all members have closed its stream and have the same of it.
pub(crate) async fn settle(
    replica: &LocalReplica,
    lost: ReplicaSlot,
    by: SettledBy,
) -> Result<(), String> {
    let missing = closing::open_at(replica, lost).or_else(|| waits_for(replica, lost));
    if let Some(missing) = missing {
        return Err(format!("not yet: {missing}; try again in a few seconds"));
    }
    let through = replica.state.inboxes.acknowledged(lost);
    let below = replica.engine.frozen_below(lost);
    let state = replica.view_state();
    let loss = state.as_ref().and_then(|state| state.losses.get(&lost));
    let known = loss.map_or(0, |loss| loss.incarnation + 1);
    let below = below.unwrap_or(0).max(known);
    decide_settlement(replica, lost, through, below, by).await
}

/// Lets the set agree that a lost replica's controls end.
async fn decide_settlement(
    replica: &LocalReplica,
    slot: ReplicaSlot,
    through: u64,
    incarnation_below: u64,
    by: SettledBy,
) -> Result<(), String> {
    let views = replica.views.get().ok_or("the server starts; try again")?;
    let settlement = Settlement {
        through,
        incarnation_below,
        names: None,
        by,
        at_unix_s: unix_seconds(),
        id: 0,
    };
    let decision = replica.decision(DecisionKind::Settle { slot, settlement });
    match views.decide(decision).await {
        Ok(Outcome::Applied) => Ok(()),
        Ok(Outcome::Refused(why)) => Err(why),
        Err(error @ ViewError::NoLeader) => Err(error.to_string()),
        Err(error) => Err(format!("{error}; look at `meridian view`, then try again")),
    }
}
