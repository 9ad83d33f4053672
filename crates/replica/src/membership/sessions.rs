//! The beginning and the end of conversations with peers.
//!
//! What must never enter: what a peer reports about itself (`greetings`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use peer::{Lane, Sender};
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::replication::conversing;
use crate::replication::removed;
use crate::state::arrivals::PUTTING_AT_ONCE;
use crate::state::outbound::{Delivered, Outbox};

/// A new incarnation of a peer is there, or a new connection to it.
pub(crate) fn began(replica: &Arc<LocalReplica>, peer: Sender) {
    let slot = peer.slot;
    if !replica.state.members.is_member(slot) || replica.state.inboxes.get(slot).is_none() {
        // It joined a moment ago; the conversation begins when this replica can take in its messages.
        return;
    }
    let known = replica.endpoint.get().and_then(|all| all.peer(slot));
    let Some(known) = known else {
        return;
    };
    let session = known.session().ok();
    let Some(session) = session.filter(|session| session.peer() == peer) else {
        // Another incarnation has followed, or the session has ended.
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
    replica.engine.forget_wishes(slot);
    let outbox = replica.state.outbound.begin(session);
    for lane in [Lane::Control, Lane::Metadata] {
        let delivery = tokio::spawn(deliver(replica.clone(), slot, outbox.clone(), lane));
        conversing::converse(replica, slot, delivery);
    }
    replica.engine.connected(slot);
    let greeter = tokio::spawn(greet(replica.clone(), slot));
    conversing::converse(replica, slot, greeter);
}

/// Sends one-way messages to an incarnation of a peer until that is gone.
async fn deliver(replica: Arc<LocalReplica>, slot: ReplicaSlot, outbox: Arc<Outbox>, lane: Lane) {
    while outbox.deliver(lane).await == Delivered::SayAgain {
        tracing::info!(
            peer = slot.0,
            "a peer that was away is told anew how things are"
        );
        say_again(&replica, slot);
    }
}

/// Repeats what was dropped for a peer that was away. The peer does the same, as it may have had no answer.
fn say_again(replica: &Arc<LocalReplica>, slot: ReplicaSlot) {
    replica.engine.connected(slot);
    replica.say_completed_again(slot);
    if let Some(inbox) = replica.state.inboxes.get(slot) {
        conversing::say_hello(replica, &inbox, true);
    }
}

/// That incarnation is gone, with everything that it had not received.
pub(crate) fn ended(replica: &Arc<LocalReplica>, peer: Sender) {
    tracing::warn!(peer = peer.slot.0, incarnation = %peer.incarnation, "a peer is gone");
    replica.end_conversation(peer.slot);
}

/// Reports how far we have followed, once nothing of an earlier session is in transit.
async fn greet(replica: Arc<LocalReplica>, slot: ReplicaSlot) {
    let Some(inbox) = replica.state.inboxes.get(slot) else {
        return;
    };
    // The marks of this peer are stored before anything here depends on them. A store that has failed ends the server.
    if replica.state.lineage.keep().await.is_err() {
        return;
    }
    // Older contents of the peer that others relay must not be put in place later: they would replace what it sends.
    let all = replica.state.inboxes.all();
    for inbox in all {
        // The semaphore is never closed.
        drop(inbox.putting.acquire_many(PUTTING_AT_ONCE).await);
    }
    let _between_records = inbox.applying.lock().await;
    conversing::say_first_hello(&replica, &inbox);
    removed::tell(&replica, slot);
}

/// A peer has applied our stream up to here, stably.
pub(crate) fn applied(replica: &LocalReplica, by: ReplicaSlot, position: u64) {
    replica.engine.applied_by(by, position);
    replica.state.conversations.with(by, |conversation| {
        conversation.applied.send_replace(position);
    });
    if replica.state.majority_awaited.load(Ordering::Acquire) > 0 {
        // What becomes complete with this is told now.
        replica.send_completed();
    }
}
