//! Removed files that clients of other replicas may have open: which replicas keep them, and until when.
//!
//! The replica that carries out a removal keeps the file without a name; it is the file's home. It lets the file go when every replica that keeps
//! contents has applied the removal, and no replica has reported a client with the file open. The home does not ask: a replica that applies a removal
//! checks its own opens, keeps what is open, and tells the others everything that it keeps ([`HeldOpen`]). That is nearly always nothing, and then it
//! sends no message. Its acknowledgement names the version of that report, so neither overtakes the other.
//!
//! Clients' operations on a removed file are done at its home. A replica that keeps the file does the same to its own copy, and continues with that
//! copy if the home is lost.
//!
//! What must never enter: what clients have open here, which the store knows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use peer::Lane;
use vfs::{ObjectId, ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;
use crate::state::members::Speaker;
use crate::state::wire::{self, HeldOpen, Kind};

/// How long opens and acknowledgements gather before they are reported or checked.
const GATHERING: Duration = Duration::from_millis(10);

/// Tells one peer which removed files clients here have open. A witness keeps no such files.
pub(crate) fn tell(replica: &LocalReplica, peer: ReplicaSlot) {
    if !replica.state.is_witness && replica.speaker(peer) != Speaker::Witness {
        let (version, files) = replica.store.orphans_held();
        let message = wire::payload(Kind::HeldOpen, &HeldOpen { version, files });
        replica.state.outbound.send(peer, Lane::Control, message);
    }
}

/// Reports to others what is kept here, and lets files go that no client has open, until the replica stops.
pub(crate) async fn keep(replica: Arc<LocalReplica>) {
    if replica.state.is_witness {
        return;
    }
    take_up(&replica);
    let mut changes = replica.store.orphan_changes();
    let mut notifications = replica.engine.notifications();
    let mut told = 0;
    loop {
        changes.borrow_and_update();
        notifications.borrow_and_update();
        let version = replica.store.orphans_version();
        if version > told {
            told = version;
            let others = replica.state.members.others().into_iter();
            others.for_each(|peer| tell(&replica, peer));
        }
        let store = &replica.store;
        (replica.state.removed).forget_gone(|file| store.orphan_home(file).is_some());
        if let Err(error) = let_go(&replica).await {
            // The store has failed, which ends the server.
            return tracing::error!(%error, "removed files cannot be cleared away");
        }
        tokio::time::sleep(GATHERING).await;
        tokio::select! {
            // The senders live in the store and the engine. The engine notifies now and then, so that expired times are noticed.
            _ = changes.changed() => {}
            _ = notifications.changed() => {}
        }
    }
}

/// Files left by an earlier start: the others have applied none of their places in this start.
fn take_up(replica: &LocalReplica) {
    let place = *replica.store.stable_position().borrow();
    let own = replica.store.orphans().into_iter();
    let own = own.filter(|(_, home)| *home == replica.slot());
    let left = own.map(|(file, _)| (place, file)).collect::<Vec<_>>();
    replica.engine.take_up_removed(left);
}

/// Lets files go that no client has open any more.
async fn let_go(replica: &LocalReplica) -> Result<()> {
    let Some(counted) = replica
        .engine
        .keepers_of_removed(replica.state.members.others())
    else {
        return Ok(());
    };
    let (through, kept) = replica
        .state
        .removed
        .judged(&counted, replica.state.settings.client_lease);
    let (_, open_here) = replica.store.orphans_held();
    let open_here: BTreeSet<ObjectId> = open_here.into_iter().collect();
    let is_kept = |file: &ObjectId| kept.contains(file) || open_here.contains(file);
    let judged = replica.engine.removed_through(through, is_kept);
    if judged.is_empty() {
        return Ok(());
    }
    let files: Vec<ObjectId> = judged.iter().map(|(_, file)| *file).collect();
    replica.store.bury(&files).await?;
    replica.engine.forget_buried(judged);
    Ok(())
}
