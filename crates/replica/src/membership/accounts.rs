//! Accounts: what is kept here for every other replica, from the moment that this one hears of it until it is removed.
//!
//! A stream is followed as long as anything of it may count, be its replica a member or not; the rest is kept of members.
//! What must never enter: what the accounts say (`ledger`, `shipping`), and connections (`peer`).

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

/// Those out of the view for whom more is noted than is kept for anybody: their updates are kept no longer either.
pub(crate) fn overdrawn(replica: &LocalReplica) -> BTreeSet<ReplicaSlot> {
    let others = replica.state.members.others().into_iter();
    let wanted: Vec<(ReplicaSlot, usize)> = others
        .map(|slot| (slot, replica.state.conversations.owed_files(slot)))
        .collect();
    let kept = replica.kept_files();
    replica.engine.overdrawn(wanted, kept)
}

/// Notes nothing more for those out of the view who lack updates that are not kept: they take a whole copy, which needs
/// nothing of that. The marks of files that everybody else has can go then.
pub(crate) fn give_up_overdue(replica: &LocalReplica) {
    let overdrawn = overdrawn(replica);
    let trimmed = replica.trimmed();
    let others = replica.state.members.others().into_iter();
    // Nobody knows yet where the copy will begin that somebody is being sent, who need not have more noted for that than others.
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
            // Who has not greeted yet is told then.
            conversing::too_far_behind(replica, slot);
        }
    }
}

/// Somebody is in contact who has applied our stream up to a place: from now on its account is right. What it lacks of
/// contents that were changed while it was given up is behind that place; what it lacks of earlier ones it knows itself, and
/// asks for. Whether it has everything else is what it has said last, once all that it asks for has come. What it says while this is found out, too,
/// counts.
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

/// Somebody asks for contents who has applied our stream up to a place, and has perhaps not greeted yet: from now on it is noted what is
/// owed to it.
pub(crate) fn open(replica: &LocalReplica, slot: ReplicaSlot, applied: u64) {
    let _one_at_a_time = replica.state.balancing.lock();
    reopen(replica, slot, applied);
}

/// Opens an account again that was given up. False when the store has failed, which ends the server.
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

/// Follows the streams of those who take part or are lost, members or not, until it is decided how they end; and closes the
/// accounts of those who are gone, who keep nothing and nobody waiting. Of one that is to be removed, and is in the view yet, a
/// replica that was started anew learns from no list; it takes its place only with all that the others have of it.
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
