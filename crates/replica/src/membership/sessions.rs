//! The beginning and the end of conversations with peers, and what each says of itself.

use std::sync::Arc;

use peer::{Lane, Sender, Session};
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::membership::accounts;
use crate::membership::members;
use crate::membership::views;
use crate::replication::base;
use crate::replication::contents;
use crate::replication::conversing;
use crate::replication::removed;
use crate::replication::sending;
use crate::state::arrivals::PUTTING_AT_ONCE;
use crate::state::conversations::Conversation;
use crate::state::copies::Held;
use crate::state::outbound::{Delivered, Outbox};
use crate::state::wire::Greeting;

/// A new incarnation of a peer is there, or the connection to it is new.
pub(crate) fn began(replica: &Arc<LocalReplica>, peer: Sender) {
    let slot = peer.slot;
    if !replica.state.members.is_member(slot) || replica.state.inboxes.get(slot).is_none() {
        // It joined a moment ago; the conversation begins when this replica has a place for what it sends.
        return;
    }
    let known = replica.endpoint.get().and_then(|all| all.peer(slot));
    let Some(known) = known else {
        return;
    };
    let session = known.session().ok();
    let Some(session) = session.filter(|session| session.peer() == peer) else {
        // It has been followed by another incarnation, or was ended.
        return;
    };
    tracing::info!(peer = slot.0, incarnation = %peer.incarnation, "in contact with a peer");
    replica
        .state
        .peers
        .with(peer.slot, |known| known.nonsense.begin(peer.incarnation));
    replica.state.outcomes.note_began(peer);
    replica.state.conversations.begin(slot);
    replica.state.removed.begin(slot);
    let outbox = replica.state.outbound.begin(session);
    for lane in [Lane::Control, Lane::Metadata] {
        let delivery = tokio::spawn(deliver(replica.clone(), slot, outbox.clone(), lane));
        conversing::converse(replica, slot, delivery);
    }
    replica.engine.connected(slot);
    let greeter = tokio::spawn(greet(replica.clone(), slot));
    conversing::converse(replica, slot, greeter);
}

/// Sends one-way messages to an incarnation of a peer, until it is gone.
async fn deliver(replica: Arc<LocalReplica>, slot: ReplicaSlot, outbox: Arc<Outbox>, lane: Lane) {
    while outbox.deliver(lane).await == Delivered::SayAgain {
        tracing::info!(
            peer = slot.0,
            "a peer that was away is told anew how things are"
        );
        say_again(&replica, slot);
    }
}

/// Says again what was dropped for a peer that was away; it does the same, for it may not have been answered.
fn say_again(replica: &Arc<LocalReplica>, slot: ReplicaSlot) {
    replica.engine.connected(slot);
    replica.say_completed_again(slot);
    if let Some(inbox) = replica.state.inboxes.get(slot) {
        conversing::say_hello(replica, &inbox, true);
    }
}

/// That incarnation is gone, with everything it had not received.
pub(crate) fn ended(replica: &Arc<LocalReplica>, peer: Sender) {
    tracing::warn!(peer = peer.slot.0, incarnation = %peer.incarnation, "a peer is gone");
    replica.end_conversation(peer.slot);
}

/// Says how far we have followed, once nothing of an earlier session is under way any more.
async fn greet(replica: Arc<LocalReplica>, slot: ReplicaSlot) {
    let Some(inbox) = replica.state.inboxes.get(slot) else {
        return;
    };
    // What is met of the peer is kept before anything here rests on it. A store that has failed ends the server.
    if replica.state.lineage.keep().await.is_err() {
        return;
    }
    // Nor is anything put in place that others had of its contents: that would take the place of what it sends.
    let all = replica.state.inboxes.all();
    for inbox in all {
        // The semaphore is never closed.
        drop(inbox.putting.acquire_many(PUTTING_AT_ONCE).await);
    }
    let _between_records = inbox.applying.lock().await;
    conversing::say_hello(&replica, &inbox, true);
    removed::tell(&replica, slot);
}

/// A peer has said how far it is.
pub(crate) fn greeted(replica: &Arc<LocalReplica>, from: ReplicaSlot, greeting: Greeting) {
    members::learn_members(replica, from, &greeting.members);
    replica.state.members.note_greeted(from);
    let proved = replica
        .signatures
        .verify_certificate(from, &greeting.certificate);
    if let (Ok(()), Some(inbox)) = (proved, replica.state.inboxes.get(from)) {
        inbox.note_certificate(greeting.certificate);
    }
    if greeting.begins {
        replica.engine.connected(from);
        views::say_entered(replica, from);
        replica.say_completed_again(from);
        if let Some(inbox) = replica.state.inboxes.get(from) {
            conversing::say_hello(replica, &inbox, false);
        }
        if !replica.lease.is_up_to_date() {
            base::ask_for_lacking(replica, from);
        }
    }
    let peer = replica.endpoint.get().and_then(|all| all.peer(from));
    let Some(Ok(session)) = peer.map(|peer| peer.session()) else {
        return;
    };
    let has = Held::from_number(greeting.held);
    if has > Held::Nothing && greeting.applied < replica.trimmed() {
        return conversing::too_far_behind(replica, from);
    }
    if has > Held::Nothing {
        replica.state.copies.end(from);
        applied(replica, from, greeting.applied);
    }
    replica.state.conversations.with(from, |conversation| {
        conversation.held = Some(has);
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
    let balanced = accounts::balance(replica.clone(), from, applied, has == Held::Everything);
    let sending = replica.clone();
    let talking = tokio::spawn(async move {
        balanced.await;
        start_sending(&sending, session, applied);
    });
    conversing::converse(replica, from, talking);
}

/// Whether it is up to this replica to supply another one with the tree: the first member that takes part, answers, holds it
/// and whose copy is complete does. Where nobody's is, those without a copy are waited for by the others, and get it from the first that holds it.
fn supplies_base(replica: &LocalReplica, to: ReplicaSlot) -> bool {
    let own = replica.slot();
    let silent = views::silent(replica);
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

/// Sends updates from behind a position on, and contents, unless they are being sent.
fn start_sending(replica: &Arc<LocalReplica>, session: Session, from: u64) {
    let slot = session.peer().slot;
    // A witness makes no updates. Where its positions begin after a start is nothing to tell, and would be refused.
    let sends = !replica.state.is_witness && first_time(replica, slot, |with| &mut with.sending);
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
    if first_time(replica, slot, |with| &mut with.shipping) {
        let contents = tokio::spawn(contents::ship(replica.clone(), session));
        conversing::converse(replica, slot, contents);
    }
}

/// A peer has applied our stream up to here, stably.
pub(crate) fn applied(replica: &LocalReplica, by: ReplicaSlot, position: u64) {
    replica.engine.applied_by(by, position);
    replica.state.conversations.with(by, |conversation| {
        conversation.applied.send_replace(position);
    });
}
