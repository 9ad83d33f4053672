//! What is said to a peer during its session, besides updates and contents.
//!
//! What must never enter: when a session begins and ends (`membership::sessions`).

use std::sync::Arc;

use peer::{Lane, Message};
use tokio::task::JoinHandle;
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::local_replica::LocalReplica;
use crate::replication::taken::taken;
use crate::state::arrivals::Inbox;
use crate::state::lists::{List, Lists};
use crate::state::members::Speaker;
use crate::state::wire::{self, BasePage, Greeting};

/// Sends a list of any length, in order, as fast as the peer takes it. Nothing of it is dropped during the session, except when a newer list of its
/// kind replaces it.
pub(crate) fn send_list(replica: &LocalReplica, to: ReplicaSlot, list: List, parts: Vec<Message>) {
    let lists = replica
        .state
        .conversations
        .with(to, |with| with.lists.clone());
    // Without a session: the next session sends such lists again.
    if let Some(lists) = lists.filter(|lists| lists.tell(list, parts)) {
        send_lists(replica, to, lists);
    }
}

/// Asks a peer for the contents of files, in the same way; without files, tells only the count. A witness asks for nothing, and is asked for nothing.
pub(crate) fn want(replica: &LocalReplica, of: ReplicaSlot, files: &[ObjectId]) {
    if replica.state.is_witness || replica.speaker(of) == Speaker::Witness {
        return;
    }
    let lists = replica
        .state
        .conversations
        .with(of, |with| with.lists.clone());
    // A store that has failed ends the server elsewhere.
    let applied = replica.store.applied(of).unwrap_or_default();
    let asked_at = (applied, replica.state.given_way.turn());
    if let Some(lists) = lists.filter(|lists| lists.want(files, asked_at)) {
        send_lists(replica, of, lists);
    }
}

fn send_lists(replica: &LocalReplica, to: ReplicaSlot, lists: Arc<Lists>) {
    let peer = replica.endpoint.get().and_then(|all| all.peer(to));
    let Some(Ok(session)) = peer.map(|peer| peer.session()) else {
        // The conversation ends with its session.
        return;
    };
    let sending = tokio::spawn(async move {
        while let Some(message) = lists.next() {
            if let Err(error) = session.send(Lane::Metadata, message).await {
                return tracing::debug!(peer = to.0, %error, "a list is told anew in the next session");
            }
        }
    });
    converse(replica, to, sending);
}

/// Tells a peer again how far its stream is applied here. Before the first greeting of a conversation nothing is said: that one waits for what must not
/// come later, and says everything.
pub(crate) fn say_hello(replica: &LocalReplica, inbox: &Inbox, begins: bool) {
    let has_greeted = (replica.state.conversations).with(inbox.from, |with| with.has_greeted);
    if has_greeted == Some(true) {
        tell_greeting(replica, inbox, begins);
    }
}

/// Tells a peer for the first time in a conversation.
pub(crate) fn say_first_hello(replica: &LocalReplica, inbox: &Inbox) {
    // Before it is made: what changes from here on is told of in this greeting or in another one.
    replica
        .state
        .conversations
        .with(inbox.from, |with| with.has_greeted = true);
    tell_greeting(replica, inbox, true);
}

fn tell_greeting(replica: &LocalReplica, inbox: &Inbox, begins: bool) {
    let greeting = || Greeting {
        begins,
        // The peer counts it as stable.
        applied: inbox.acknowledged(),
        held: *replica.state.held.borrow() as u8,
        wished: replica.state.conversations.asked_for(inbox.from),
        taken: taken(replica, inbox.from),
        members: replica.state.members.list(),
        certificate: replica.signatures.certificate(),
    };
    inbox.tell(greeting, |greeting| {
        let message = wire::body(wire::Kind::Greeting, &greeting);
        replica
            .state
            .outbound
            .send(inbox.from, Lane::Control, message);
    });
}

/// Logged once; repeats are summed later.
const NOT_KEPT: &str = "updates that a peer lacks are not kept any more";

/// A peer lacks updates that are no longer kept: it has to take a whole copy.
pub(crate) fn too_far_behind(replica: &LocalReplica, peer: ReplicaSlot) {
    if let Some(sum) = replica.state.repeats.is_to_tell(NOT_KEPT, peer) {
        tracing::warn!(
            peer = peer.0,
            %sum,
            "updates that a peer lacks are not kept any more; should this go on, raise `kept_updates`"
        );
    }
    let message = Message::new(wire::Kind::TooFar.number(), bytes::Bytes::new());
    replica.state.outbound.send(peer, Lane::Control, message);
}

/// Ends a task with the conversation, which may have ended meanwhile.
pub(crate) fn converse(replica: &LocalReplica, with: ReplicaSlot, task: JoinHandle<()>) {
    let mut task = Some(task);
    replica.state.conversations.with(with, |conversation| {
        conversation.tasks.retain(|task| !task.is_finished());
        conversation.tasks.extend(task.take());
    });
    if let Some(task) = task {
        task.abort();
    }
}

/// A peer has all content of a file, which may be the last file of the copy with which it began.
pub(crate) fn has_content(replica: &LocalReplica, peer: ReplicaSlot, file: ObjectId) {
    replica.state.conversations.with(peer, |conversation| {
        if let Some(owed) = &mut conversation.base {
            owed.remove(file);
        }
    });
    look_at_base(replica, peer);
}

/// Finds files that a copy waits for and of which nothing is owed any more: they were removed, cut, or changed by others, or are written so often
/// that something new is always on its way.
pub(crate) fn let_go_of_settled(replica: &LocalReplica) {
    for peer in replica.state.conversations.beginners() {
        let owed = replica.state.conversations.owed(peer, LOOKED_AT);
        let settled = replica.engine.owed_no_more(peer, owed);
        for file in settled {
            has_content(replica, peer, file);
        }
    }
}

/// Tells a peer when it has everything that it lacked at the beginning.
pub(crate) fn look_at_base(replica: &LocalReplica, peer: ReplicaSlot) {
    let complete = replica.state.conversations.with(peer, |conversation| {
        let owed = conversation.base.as_ref()?;
        let complete = owed.files.is_empty() && conversation.named;
        complete.then(|| {
            conversation.base = None;
            conversation.rows = None;
        })
    });
    if let Some(Some(())) = complete {
        let message = wire::payload(wire::Kind::Base, &BasePage::Complete);
        replica.state.outbound.send(peer, Lane::Metadata, message);
    }
}

/// One pass checks at most this many files that a copy waits for.
const LOOKED_AT: usize = 4096;
