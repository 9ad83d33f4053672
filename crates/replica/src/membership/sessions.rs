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
pub(crate) fn began(shared: &Arc<LocalReplica>, peer: Sender) {
    let slot = peer.slot;
    if !shared.state.members.is_member(slot) || shared.state.inboxes.get(slot).is_none() {
        // It joined a moment ago; the conversation begins when this replica has a place for what it sends.
        return;
    }
    let known = shared.endpoint.get().and_then(|all| all.peer(slot));
    let Some(known) = known else {
        return;
    };
    let session = known.session().ok();
    let Some(session) = session.filter(|session| session.peer() == peer) else {
        // It has been followed by another incarnation, or was ended.
        return;
    };
    tracing::info!(peer = slot.0, incarnation = %peer.incarnation, "in contact with a peer");
    shared
        .state
        .peers
        .with(peer.slot, |known| known.nonsense.begin(peer.incarnation));
    shared.state.outcomes.note_began(peer);
    shared.state.conversations.begin(slot);
    shared.state.removed.begin(slot);
    let outbox = shared.state.outbound.begin(session);
    for lane in [Lane::Control, Lane::Metadata] {
        let delivery = tokio::spawn(deliver(shared.clone(), slot, outbox.clone(), lane));
        conversing::converse(shared, slot, delivery);
    }
    shared.engine.connected(slot);
    let greeter = tokio::spawn(greet(shared.clone(), slot));
    conversing::converse(shared, slot, greeter);
}

/// Sends one-way messages to an incarnation of a peer, until it is gone.
async fn deliver(shared: Arc<LocalReplica>, slot: ReplicaSlot, outbox: Arc<Outbox>, lane: Lane) {
    while outbox.deliver(lane).await == Delivered::SayAgain {
        tracing::info!(
            peer = slot.0,
            "a peer that was away is told anew how things are"
        );
        say_again(&shared, slot);
    }
}

/// Says again what was dropped for a peer that was away; it does the same, for it may not have been answered.
fn say_again(shared: &Arc<LocalReplica>, slot: ReplicaSlot) {
    shared.engine.connected(slot);
    shared.say_completed_again(slot);
    if let Some(inbox) = shared.state.inboxes.get(slot) {
        conversing::say_hello(shared, &inbox, true);
    }
}

/// That incarnation is gone, with everything it had not received.
pub(crate) fn ended(shared: &Arc<LocalReplica>, peer: Sender) {
    tracing::warn!(peer = peer.slot.0, incarnation = %peer.incarnation, "a peer is gone");
    shared.end_conversation(peer.slot);
}

/// Says how far we have followed, once nothing of an earlier session is under way any more.
async fn greet(shared: Arc<LocalReplica>, slot: ReplicaSlot) {
    let Some(inbox) = shared.state.inboxes.get(slot) else {
        return;
    };
    // What is met of the peer is kept before anything here rests on it. A store that has failed ends the server.
    if shared.state.lineage.keep().await.is_err() {
        return;
    }
    // Nor is anything put in place that others had of its contents: that would take the place of what it sends.
    let all = shared.state.inboxes.all();
    for inbox in all {
        // The semaphore is never closed.
        drop(inbox.putting.acquire_many(PUTTING_AT_ONCE).await);
    }
    let _between_records = inbox.applying.lock().await;
    conversing::say_hello(&shared, &inbox, true);
    removed::tell(&shared, slot);
}

/// A peer has said how far it is.
pub(crate) fn greeted(shared: &Arc<LocalReplica>, from: ReplicaSlot, greeting: Greeting) {
    members::learn_members(shared, from, &greeting.members);
    shared.state.members.note_greeted(from);
    let proved = shared
        .signatures
        .verify_certificate(from, &greeting.certificate);
    if let (Ok(()), Some(inbox)) = (proved, shared.state.inboxes.get(from)) {
        inbox.note_certificate(greeting.certificate);
    }
    if greeting.begins {
        shared.engine.connected(from);
        views::say_entered(shared, from);
        shared.say_completed_again(from);
        if let Some(inbox) = shared.state.inboxes.get(from) {
            conversing::say_hello(shared, &inbox, false);
        }
        if !shared.lease.is_up_to_date() {
            base::ask_for_lacking(shared, from);
        }
    }
    let peer = shared.endpoint.get().and_then(|all| all.peer(from));
    let Some(Ok(session)) = peer.map(|peer| peer.session()) else {
        return;
    };
    let has = Held::from_number(greeting.held);
    if has > Held::Nothing && greeting.applied < shared.trimmed() {
        return conversing::too_far_behind(shared, from);
    }
    if has > Held::Nothing {
        shared.state.copies.end(from);
        applied(shared, from, greeting.applied);
    }
    shared.state.conversations.with(from, |conversation| {
        conversation.held = Some(has);
    });
    let supplies = supplies_base(shared, from);
    if has == Held::Nothing {
        shared.engine.begins_empty_handed(from);
        if supplies && first_time(shared, from, |conversation| &mut conversation.supplying) {
            let supply = tokio::spawn(base::supply_rows(shared.clone(), session, greeting.taken));
            conversing::converse(shared, from, supply);
        }
        return;
    }
    let applied = greeting.applied;
    let balanced = accounts::balance(shared.clone(), from, applied, has == Held::Everything);
    let shared_too = shared.clone();
    let talking = tokio::spawn(async move {
        balanced.await;
        start_sending(&shared_too, session, applied);
    });
    conversing::converse(shared, from, talking);
}

/// Whether it is up to this replica to supply another one with the tree: the first member that takes part, answers, holds it
/// and is up to date does. Where all members were started anew, nobody is up to date before those without a copy have got it.
fn supplies_base(shared: &LocalReplica, to: ReplicaSlot) -> bool {
    let own = shared.slot();
    let silent = views::silent(shared);
    let is_whole = |slot: &ReplicaSlot| match *slot == own {
        true => shared.is_whole(),
        false => shared.state.conversations.held(*slot) == Some(Held::Everything),
    };
    let keepers = shared.engine.keepers();
    let is_holder = |slot: &ReplicaSlot| *slot != to && !silent.contains(slot) && is_whole(slot);
    let holders: Vec<ReplicaSlot> = keepers.into_iter().filter(is_holder).collect();
    let current = holders
        .iter()
        .find(|slot| views::is_up_to_date(shared, **slot));
    match current {
        Some(first) => *first == own,
        None => views::waits_for_copy(shared, to) && holders.first() == Some(&own),
    }
}

/// Whether something happens for the first time in a conversation.
fn first_time(
    shared: &LocalReplica,
    with: ReplicaSlot,
    flag: impl FnOnce(&mut Conversation) -> &mut bool,
) -> bool {
    let before = shared.state.conversations.with(with, |conversation| {
        std::mem::replace(flag(conversation), true)
    });
    before == Some(false)
}

/// Sends updates from behind a position on, and contents, unless they are being sent.
fn start_sending(shared: &Arc<LocalReplica>, session: Session, from: u64) {
    let slot = session.peer().slot;
    // A witness makes no updates. Where its positions begin after a start is nothing to tell, and would be refused.
    let sends = !shared.state.is_witness && first_time(shared, slot, |with| &mut with.sending);
    if sends {
        let applied = shared.state.conversations.with(slot, |conversation| {
            conversation.begun_at = Some(from);
            conversation.applied.subscribe()
        });
        if let Some(applied) = applied {
            let records = sending::send(shared.clone(), session.clone(), from, applied);
            conversing::converse(shared, slot, tokio::spawn(records));
        }
    }
    if first_time(shared, slot, |with| &mut with.shipping) {
        let contents = tokio::spawn(contents::ship(shared.clone(), session));
        conversing::converse(shared, slot, contents);
    }
}

/// A peer has applied our stream up to here, stably.
pub(crate) fn applied(shared: &LocalReplica, by: ReplicaSlot, position: u64) {
    shared.engine.applied_by(by, position);
    shared.state.conversations.with(by, |conversation| {
        conversation.applied.send_replace(position);
    });
}
