//! Accounts: what is kept here for every other replica, from the moment that this one hears of it until it is removed.
//!
//! A stream is followed as long as anything of it may count, be its replica a member or not; the rest is kept of members.
//! What must never enter: what the accounts say (`ledger`, `shipping`), and connections (`peer`).

use std::collections::BTreeSet;
use std::sync::Arc;

use control::Position;
use vfs::{ObjectId, ReplicaSlot};
use view::ViewState;

use crate::driver::engine::Guard;
use crate::driver::replica_state::ReplicaState;
use crate::replication::conversing;
use crate::replication::streams;
use crate::state::shipping::Backlog;
use crate::state::wire::{self, Note};

/// At most this many records are read at a time.
const RECORDS_AT_ONCE: usize = 256;

/// Opens the account of a member, unless there is one. The copy it begins with comes from somebody who may lack what is
/// on its way from here, so it gets that from here as well.
pub(crate) fn open(guard: &mut Guard<'_>, slot: ReplicaSlot, witness: bool) {
    if guard.ledger.unshipped.peer(slot).is_some() {
        return;
    }
    if witness {
        return guard.ledger.unshipped.add_witness(slot);
    }
    let lacking = guard.ledger.unshipped.peers();
    let mut files: BTreeSet<ObjectId> = lacking.flat_map(|(_, peer)| peer.lacking()).collect();
    let own = guard.own_controls();
    files.extend(own.flat_map(|(_, control)| control.claims.iter().map(|claim| claim.object)));
    let (now, follows) = (guard.now, Position(guard.ledger.last_position));
    let backlog = guard.ledger.unshipped.add_peer(slot);
    backlog.reopen();
    for file in files {
        backlog.suspected(now, file, follows);
    }
}

/// Those out of the view for whom more is noted than is kept for anybody: their updates are kept no longer either.
pub(crate) fn overdrawn(shared: &ReplicaState) -> BTreeSet<ReplicaSlot> {
    let others = shared.others().into_iter();
    let wanted: Vec<(ReplicaSlot, usize)> = others
        .map(|slot| (slot, shared.conversations.owed_files(slot)))
        .collect();
    let kept = shared.kept_files();
    shared.engine.with_core(|guard| {
        let overdrawn = wanted.into_iter().filter(|(slot, wanted)| {
            let backlog = guard.ledger.unshipped.backlog(*slot);
            let away = !guard.ledger.active.contains(slot);
            away && backlog.is_some_and(|backlog| backlog.files() > kept + wanted)
        });
        overdrawn.map(|(slot, _)| slot).collect()
    })
}

/// Notes nothing more for those out of the view who lack updates that are not kept: they take a whole copy, which needs
/// nothing of that. The marks of files that everybody else has can go then.
pub(crate) fn give_up_overdue(shared: &ReplicaState) {
    let overdrawn = overdrawn(shared);
    let trimmed = shared.trimmed();
    let others = shared.others().into_iter();
    // Nobody knows yet where the copy will begin that somebody is being sent.
    let settled: Vec<ReplicaSlot> = others
        .filter(|slot| !shared.conversations.takes_rows(*slot))
        .collect();
    let given_up = shared.engine.with_core(|guard| {
        let ledger = &guard.ledger;
        let is_overdue = |slot: &ReplicaSlot| {
            let applied = ledger.applied.get(slot).copied();
            let applied = applied.or_else(|| overdrawn.contains(slot).then_some(0));
            let backlog = ledger.unshipped.backlog(*slot);
            let noted = backlog.is_some_and(|one| one.keeps_contents() && !one.is_given_up());
            noted && !ledger.active.contains(slot) && applied.is_some_and(|at| at < trimmed)
        };
        let overdue: Vec<ReplicaSlot> = settled.into_iter().filter(is_overdue).collect();
        for slot in &overdue {
            for file in guard.ledger.unshipped.give_up(*slot) {
                guard.settle_content(file);
            }
            // It learns with its copy what it has.
            guard.ledger.unconfirmed.retain(|(of, _)| of != slot);
        }
        overdue
    });
    for slot in given_up {
        tracing::warn!(
            replica = slot.0,
            "so much was changed while a replica is away that it takes a whole copy when it is back"
        );
        if shared.outbound.is_in_session(slot) {
            conversing::too_far_behind(shared, slot);
        }
    }
}

/// Somebody is in contact who has applied our stream up to a place: from now on its account is right. What it lacks of
/// contents that were changed while it was given up is behind that place; what it lacks of earlier ones it knows itself, and
/// asks for.
pub(crate) async fn balance(
    shared: Arc<ReplicaState>,
    slot: ReplicaSlot,
    applied: u64,
    whole: bool,
) {
    let was_given_up = shared.engine.with_core(|guard| {
        let backlog = guard.ledger.unshipped.peer(slot);
        let given_up = backlog.filter(|backlog| backlog.is_given_up());
        given_up.map(Backlog::reopen).is_some()
    });
    if was_given_up && let Err(error) = note_changed_behind(&shared, slot, applied) {
        // The store has failed, which ends the server.
        return tracing::error!(%error, "what a peer lacks cannot be found out");
    }
    shared.engine.with_core(|guard| {
        if let Some(backlog) = guard.ledger.unshipped.peer(slot) {
            backlog.balance(whole);
        }
        guard.notifies = true;
    });
    shared.engine.ring_contents();
}

fn note_changed_behind(shared: &ReplicaState, slot: ReplicaSlot, applied: u64) -> vfs::Result<()> {
    let mut behind = applied;
    loop {
        let found = shared.store.updates(behind + 1, RECORDS_AT_ONCE)?;
        let Some(last) = found.last().map(|update| update.position) else {
            return Ok(());
        };
        behind = last;
        let mut changed = Vec::new();
        for update in found {
            let note: Note = wire::decode(&update.note)?;
            changed.extend(note.data.map(|file| (file, Position(update.position))));
        }
        shared.engine.with_core(|guard| {
            let now = guard.now;
            if let Some(backlog) = guard.ledger.unshipped.peer(slot) {
                for (file, follows) in changed {
                    backlog.suspected(now, file, follows);
                }
            }
        });
    }
}

/// Follows the streams of those who are lost, members or not, until it is decided how they end; and closes the accounts of
/// those who are gone, who keep nothing and nobody waiting.
pub(crate) fn follow(shared: &Arc<ReplicaState>, state: &ViewState) {
    for slot in state.losses.keys().filter(|slot| **slot != shared.slot()) {
        streams::follow(shared, *slot);
    }
    let known: BTreeSet<ReplicaSlot> = {
        let followed = shared.inboxes().keys().copied().collect::<Vec<_>>();
        followed.into_iter().chain(shared.others()).collect()
    };
    for slot in known.into_iter().filter(|slot| state.is_gone(*slot)) {
        tracing::info!(replica = slot.0, "a removed replica's accounts are closed");
        close(shared, slot);
    }
}

fn close(shared: &Arc<ReplicaState>, slot: ReplicaSlot) {
    shared.forget_member(slot);
    shared.losses.forget(slot);
    shared.engine.with_core(|guard| {
        let ledger = &mut guard.ledger;
        ledger.applied.remove(&slot);
        ledger.unconfirmed.retain(|(of, _)| *of != slot);
        ledger.complete.retain(|(of, ..)| *of != slot);
        for file in ledger.unshipped.remove_peer(slot) {
            guard.settle_content(file);
        }
        guard.settle_previous();
        guard.notifies = true;
    });
    shared.engine.ring_contents();
}
