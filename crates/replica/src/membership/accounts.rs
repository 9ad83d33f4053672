//! Accounts: what is kept here for every other replica, from the moment that this one hears of it until it is removed.
//!
//! This replica follows a stream as long as any of it may count, even if its maker is not a member. The rest is kept for members only. What must
//! never enter: the contents of accounts (`ledger`, `shipping`), and connections (`peer`).

use std::collections::BTreeSet;
use std::sync::Arc;

use control::Position;
use vfs::ReplicaSlot;
use view::ViewState;

use crate::driver::local_replica::LocalReplica;
use crate::replication::conversing;
use crate::replication::streams;
use crate::state::copies::Held;
use crate::state::wire::{self, Note};

/// At most this many records are read at a time.
const RECORDS_AT_ONCE: usize = 256;

/// Replicas outside the view for which more is noted than may be kept: their updates are not kept either.
pub(crate) fn overdrawn(replica: &LocalReplica) -> BTreeSet<ReplicaSlot> {
    let others = replica.state.members.others().into_iter();
    let wanted: Vec<(ReplicaSlot, usize)> = others
        .map(|slot| (slot, replica.state.conversations.owed_files(slot)))
        .collect();
    let kept = replica.kept_files();
    replica.engine.overdrawn(wanted, kept)
}

/// Notes nothing more for replicas outside the view that lack updates no longer kept. They take a whole copy and need no notes. Marks of files
/// that all others have can go then.
pub(crate) fn give_up_overdue(replica: &LocalReplica) {
    let overdrawn = overdrawn(replica);
    let trimmed = replica.trimmed();
    let others = replica.state.members.others().into_iter();
    // The start position of a copy that is being sent is not known yet. Its receiver may not have more noted than others.
    let settled: Vec<ReplicaSlot> = others
        .filter(|slot| !replica.state.conversations.takes_rows(*slot) || overdrawn.contains(slot))
        .collect();
    let given_up = (replica.engine).give_up_accounts(settled, &overdrawn, trimmed);
    for slot in given_up {
        tracing::warn!(
            replica = slot.0,
            "so much was changed while a replica is away that it takes a whole copy when it is back"
        );
        if replica.state.conversations.held(slot) > Some(Held::Nothing) {
            // A replica that has not greeted yet is told later.
            conversing::too_far_behind(replica, slot);
        }
    }
}

/// A replica is in contact and has applied our stream up to a position: from now on its account is right. Contents changed while the account was
/// given up come after that position. The replica itself knows which earlier contents it lacks, and asks for them. Its last report, after all of
/// them have arrived, says whether it has everything else. A report that comes during this check counts, too.
pub(crate) fn balance(replica: &LocalReplica, slot: ReplicaSlot, applied: u64) {
    let _one_at_a_time = replica.state.balancing.lock();
    if !reopen(replica, slot, applied) {
        return;
    }
    let says_whole = || replica.state.conversations.says_whole(slot);
    loop {
        let whole = says_whole();
        replica.engine.balance_account(slot, whole);
        if says_whole() == whole {
            return;
        }
    }
}

/// A replica that has applied our stream up to a position asks for contents, perhaps before it greets. From now on its account notes what it is
/// owed.
pub(crate) fn open(replica: &LocalReplica, slot: ReplicaSlot, applied: u64) {
    let _one_at_a_time = replica.state.balancing.lock();
    reopen(replica, slot, applied);
}

/// Reopens an account that was given up. Returns false if the store has failed, which ends the server.
fn reopen(replica: &LocalReplica, slot: ReplicaSlot, applied: u64) -> bool {
    if replica.engine.reopen_account(slot)
        && let Err(error) = note_changed_behind(replica, slot, applied)
    {
        tracing::error!(%error, "what a peer lacks cannot be found out");
        return false;
    }
    true
}

fn note_changed_behind(replica: &LocalReplica, slot: ReplicaSlot, applied: u64) -> vfs::Result<()> {
    let mut behind = applied;
    loop {
        let found = replica.store.updates(behind + 1, RECORDS_AT_ONCE)?;
        let Some(last) = found.last().map(|update| update.position) else {
            return Ok(());
        };
        behind = last;
        let mut changed = Vec::new();
        for update in found {
            let note: Note = wire::decode(&update.note)?;
            changed.extend(note.data.map(|file| (file, Position(update.position))));
        }
        replica.engine.suspect(slot, changed);
    }
}

/// Follows the streams of active and lost replicas, members or not, until their end is decided. Closes the accounts of replicas that are gone,
/// so that they keep nothing and delay no replica. A restarted replica finds no list with a member that is to be removed and is still in the view. To
/// replace that member, it needs everything that the others have of it.
pub(crate) fn follow(replica: &Arc<LocalReplica>, state: &ViewState) {
    let followed = state.active().chain(state.losses.keys().copied());
    for slot in followed.filter(|slot| *slot != replica.slot()) {
        streams::follow(replica, slot);
    }
    let known: BTreeSet<ReplicaSlot> = {
        let followed = replica.state.inboxes.followed();
        followed
            .into_iter()
            .chain(replica.state.members.others())
            .collect()
    };
    for slot in known.into_iter().filter(|slot| state.is_gone(*slot)) {
        tracing::info!(replica = slot.0, "a removed replica's accounts are closed");
        close(replica, slot);
    }
}

fn close(replica: &Arc<LocalReplica>, slot: ReplicaSlot) {
    replica.forget_member(slot);
    replica.state.losses.forget(slot);
    replica.engine.close_account(slot);
}
