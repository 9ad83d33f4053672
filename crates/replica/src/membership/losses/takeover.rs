//! The survivors go on by themselves if a majority held everything that the lost replica acknowledged.

use std::sync::Arc;

use vfs::ReplicaSlot;
use view::SettledBy;

use super::level::is_first;
use super::settling::{settle, waits_for};
use super::{closing, contents};
use crate::driver::local_replica::LocalReplica;
use crate::frontend::durability;
use crate::state::settings::Durability;

/// Decides this if this replica is responsible: the first member that holds contents.
pub(super) async fn take_over(replica: &Arc<LocalReplica>, lost: ReplicaSlot) {
    if !is_first(replica) || waits_for(replica, lost).is_some() {
        return;
    }
    let objects = replica.engine.frozen_objects(lost);
    if objects.is_empty() {
        return;
    }
    for (object, deep) in objects {
        if durability::setting_of(replica, object).await.0 == Durability::Relaxed {
            return;
        }
        if deep && durability::relaxed_below(replica, object).await {
            return;
        }
    }
    if !covers(replica, lost) {
        return tracing::debug!(
            replica = lost.0,
            "what it answered is not all known to be here"
        );
    }
    closing::close(replica, lost);
    match settle(replica, lost, SettledBy::Takeover).await {
        Ok(()) => tracing::warn!(replica = lost.0, "a lost replica's objects are taken over"),
        Err(why) => tracing::debug!(why, "a lost replica's objects are not taken over yet"),
    }
}

/// Whether this replica has everything that the lost replica acknowledged before it knew that it had to wait for a majority.
fn covers(replica: &LocalReplica, lost: ReplicaSlot) -> bool {
    let since = replica.state.losses.awareness().since(lost);
    since.is_some_and(|since| {
        since <= replica.state.inboxes.acknowledged(lost)
            && since <= contents::complete_through(replica, lost)
    })
}
