//! What a peer reports about itself when a conversation begins, and what starts then: updates, contents, a whole copy.
//!
//! What must never enter: when a session begins and ends (`sessions`).

use std::sync::Arc;

use peer::{Sender, Session};
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::membership::accounts;
use crate::membership::members;
use crate::membership::sessions::applied;
use crate::membership::views;
use crate::replication::base;
use crate::replication::contents;
use crate::replication::conversing;
use crate::replication::sending;
use crate::state::conversations::Conversation;
use crate::state::copies::Held;
use crate::state::wire::{Greeting, Wanted};

/// A peer has reported how far it is.
pub(crate) fn greeted(replica: &Arc<LocalReplica>, by: Sender, greeting: Greeting) {
    let from = by.slot;
    members::learn_members(replica, from, &greeting.members);
    replica.state.members.note_greeted(from);
    let proved = replica
        .signatures
        .verify_certificate(from, &greeting.certificate);
    if let (Ok(()), Some(inbox)) = (proved, replica.state.inboxes.get(from)) {
        inbox.note_certificate(greeting.certificate);
    }
    // The peer's first message may have come before the conversation began here, and was lost then.
    let is_first = first_time(replica, from, |conversation| &mut conversation.begun);
    if greeting.begins || is_first {
        answer(replica, from);
    }
    let peer = replica.endpoint.get().and_then(|all| all.peer(from));
    // What an incarnation said that has gone counts for no later one.
    let session = peer.and_then(|peer| peer.session().ok());
    let Some(session) = session.filter(|session| session.peer() == by) else {
        return;
    };
    let has = Held::from_number(greeting.held);
    if has > Held::Nothing && is_first {
        // It may have taken an older copy since the last contact. A later greeting, after dropped messages, may be older than its other reports.
        replica.engine.forget_applied(from);
    }
    if has > Held::Nothing && greeting.applied < replica.trimmed() {
        // Otherwise nothing would be known of it, and nothing kept for it could be given up.
        replica.engine.applied_by(from, greeting.applied);
        return conversing::too_far_behind(replica, from);
    }
    if has > Held::Nothing {
        replica.state.copies.end(from);
        applied(replica, from, greeting.applied);
    }
    replica.state.conversations.with(from, |conversation| {
        conversation.held = Some(has);
        conversation.wished = greeting.wished;
    });
    let supplies = supplies_base(replica, from);
    if has == Held::Nothing {
        replica.engine.begins_empty_handed(from);
        if supplies && first_time(replica, from, |conversation| &mut conversation.supplying) {
            let supply = tokio::spawn(base::supply_rows(replica.clone(), session, greeting.taken));
            conversing::converse(replica, from, supply);
        }
        return;
    }
    let applied = greeting.applied;
    let sending = replica.clone();
    let talking = tokio::spawn(async move {
        accounts::balance(&sending, from, applied);
        start_sending(&sending, session, applied);
    });
    conversing::converse(replica, from, talking);
}

/// Answers a peer when a conversation begins: asks for what is lacking here, then reports how far this replica is and how much it asked for.
fn answer(replica: &Arc<LocalReplica>, from: ReplicaSlot) {
    replica.engine.connected(from);
    views::say_joined(replica, from);
    replica.say_completed_again(from);
    let Some(inbox) = replica.state.inboxes.get(from) else {
        return;
    };
    let held = *replica.state.held.borrow();
    // Data that a lost peer believes complete here may have given way to another copy.
    let may_lack = !replica.lease.is_up_to_date() || replica.store.has_given_way(from, None);
    // A greeting in between would say that nothing is asked for (counterexample 88).
    inbox.between_tellings(|| {
        replica.state.conversations.with(from, |conversation| {
            conversation.lists.count();
        });
        match held > Held::Nothing && may_lack {
            true => base::ask_for_lacking(replica, from),
            // A replica without rows asks once they are here.
            false => conversing::want(replica, from, &[]),
        }
    });
    conversing::say_hello(replica, &inbox, false);
}

/// A peer names the files whose contents it needs. Its greeting, on another lane, may come later.
pub(crate) fn wanted(replica: &LocalReplica, from: ReplicaSlot, wanted: Wanted) {
    let (applied, named) = (wanted.applied, wanted.named);
    // The position where it asked may no longer be kept, because it has advanced.
    let reached = replica.state.conversations.applied(from).max(applied);
    if reached < replica.trimmed() {
        // The answer to its greeting, or the sender of updates, tells it.
        if wanted.copy {
            replica.state.conversations.refuse(from);
        }
        return;
    }
    if wanted.copy || !wanted.files.is_empty() {
        accounts::open(replica, from, applied);
        base::wanted(replica, from, wanted);
    }
    replica.state.conversations.with(from, |conversation| {
        conversation.wishes_heard = named.max(conversation.wishes_heard);
    });
    if replica.state.conversations.says_whole(from) {
        accounts::balance(replica, from, reached);
    }
}

/// Whether this replica is the one to supply another with the tree: the first active member that answers, holds it, and has a complete copy. If
/// no copy is complete, the members wait for replicas without a copy, and the first that holds the tree supplies them.
fn supplies_base(replica: &LocalReplica, to: ReplicaSlot) -> bool {
    let own = replica.slot();
    let silent = replica.silent();
    let is_whole = |slot: &ReplicaSlot| match *slot == own {
        true => replica.is_whole(),
        false => replica.state.conversations.held(*slot) == Some(Held::Everything),
    };
    let keepers = replica.engine.keepers();
    let is_holder = |slot: &ReplicaSlot| *slot != to && !silent.contains(slot) && is_whole(slot);
    let holders: Vec<ReplicaSlot> = keepers.into_iter().filter(is_holder).collect();
    let complete = holders.iter().find(|slot| replica.has_complete(**slot));
    match complete {
        Some(first) => *first == own,
        None => views::waits_for_copy(replica, to) && holders.first() == Some(&own),
    }
}

/// Whether something happens for the first time in a conversation.
fn first_time(
    replica: &LocalReplica,
    with: ReplicaSlot,
    flag: impl FnOnce(&mut Conversation) -> &mut bool,
) -> bool {
    let before = replica.state.conversations.with(with, |conversation| {
        std::mem::replace(flag(conversation), true)
    });
    before == Some(false)
}

/// Whether something happens for the first time in the conversation of this session. A session ends before the conversation of the next one begins, and a
/// task of an ended session that set the flag there would leave its work undone.
fn first_time_in(
    replica: &LocalReplica,
    session: &Session,
    flag: impl FnOnce(&mut Conversation) -> &mut bool,
) -> bool {
    let before = replica
        .state
        .conversations
        .with(session.peer().slot, |with| {
            session.has_ended() || std::mem::replace(flag(with), true)
        });
    before == Some(false)
}

/// Sends updates after a position, and contents, unless this is in progress.
fn start_sending(replica: &Arc<LocalReplica>, session: Session, from: u64) {
    let slot = session.peer().slot;
    // A witness makes no updates. Its first position after a start means nothing, and would be refused.
    let sends =
        !replica.state.is_witness && first_time_in(replica, &session, |with| &mut with.sending);
    if sends {
        let applied = replica.state.conversations.with(slot, |conversation| {
            conversation.begun_at = Some(from);
            conversation.applied.subscribe()
        });
        if let Some(applied) = applied {
            let records = sending::send(replica.clone(), session.clone(), from, applied);
            conversing::converse(replica, slot, tokio::spawn(records));
        }
    }
    if first_time_in(replica, &session, |with| &mut with.shipping) {
        let contents = tokio::spawn(contents::ship(replica.clone(), session));
        conversing::converse(replica, slot, contents);
    }
}
