//! The beginning and the end of conversations with peers, and what each says of itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use control::Position;
use peer::{Lane, Message, Sender, Session};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::shared::Shared;
use crate::membership::accounts;
use crate::membership::losses;
use crate::membership::members;
use crate::membership::views;
use crate::replication::base;
use crate::replication::base::Held;
use crate::replication::contents;
use crate::replication::progress::{Remainder, Stage};
use crate::replication::removed;
use crate::replication::streams;
use crate::state::arrivals::{Inbox, PUTTING_AT_ONCE};
use crate::state::post::{Delivered, Outbox};
use crate::state::wire::{self, BasePage, Greeting};

/// So many files that a copy waits for are looked at in one go.
const LOOKED_AT: usize = 4096;

/// What is going on with each peer that has a session.
#[derive(Default)]
pub(crate) struct Conversations(Mutex<BTreeMap<ReplicaSlot, Conversation>>);

#[derive(Default)]
struct Conversation {
    tasks: Vec<JoinHandle<()>>,
    /// Held while a list is being sent.
    lists: Arc<tokio::sync::Mutex<()>>,
    /// Our stream is being sent.
    sending: bool,
    /// How far the peer says it has applied our stream.
    applied: watch::Sender<u64>,
    /// The rows of the copy that it begins with are being sent.
    supplying: bool,
    /// The copy that the peer takes from here: all objects and those sent; nothing once it has all contents.
    rows: Option<(u64, u64)>,
    /// The peer began with a copy from here, and lacks these files of it.
    base: Option<Owed>,
    /// It has named all of them.
    named: bool,
    /// Bytes of rows, updates and contents that it was sent.
    sent: u64,
    /// How far it had applied our stream when the conversation began.
    begun_at: Option<u64>,
    /// It holds nothing yet, and so has applied nothing.
    takes_rows: bool,
}

/// Files of a copy whose contents the peer lacks, with their sizes.
#[derive(Default)]
struct Owed {
    files: BTreeMap<ObjectId, u64>,
    bytes: u64,
    /// All that were ever named.
    named: u64,
    named_bytes: u64,
    /// Bytes that the peer had been sent before.
    sent_before: u64,
}

impl Owed {
    fn add(&mut self, file: ObjectId, size: u64) {
        if self.files.insert(file, size).is_none() {
            self.bytes = self.bytes.saturating_add(size);
            self.named_bytes = self.named_bytes.saturating_add(size);
            self.named += 1;
        }
    }

    fn remove(&mut self, file: ObjectId) {
        if let Some(size) = self.files.remove(&file) {
            self.bytes = self.bytes.saturating_sub(size);
        }
    }

    fn remainder(&self, sent: u64) -> Remainder {
        let (objects_left, sent) = (self.files.len() as u64, sent - self.sent_before.min(sent));
        Remainder {
            stage: Stage::Contents,
            objects_done: self.named - objects_left,
            objects_left,
            bytes_done: sent,
            // What was sent of files that are not complete is not left.
            bytes_left: Some(self.bytes.min(self.named_bytes.saturating_sub(sent))),
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Conversations {
    fn with<T>(&self, peer: ReplicaSlot, work: impl FnOnce(&mut Conversation) -> T) -> Option<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get_mut(&peer).map(work)
    }

    fn begin(&self, peer: ReplicaSlot) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(peer, Conversation::default());
    }

    pub(crate) fn contains(&self, peer: ReplicaSlot) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.contains_key(&peer)
    }

    pub(crate) fn end_all(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.clear();
    }

    fn end(&self, peer: ReplicaSlot) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&peer);
    }

    /// The peers that begin with a copy from here and have not got all of it.
    fn beginners(&self) -> Vec<ReplicaSlot> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let beginners = all.iter().filter(|(_, with)| with.base.is_some());
        beginners.map(|(slot, _)| *slot).collect()
    }

    /// Whether the contents of a file belong to the copy that a peer begins with.
    pub(crate) fn owes(&self, peer: ReplicaSlot, file: ObjectId) -> bool {
        let owes = self.with(peer, |conversation| {
            let owed = conversation.base.as_ref();
            owed.is_some_and(|owed| owed.files.contains_key(&file))
        });
        owes == Some(true)
    }

    /// The first of these files, at most so many, once all are named.
    fn owed(&self, peer: ReplicaSlot, count: usize) -> Vec<ObjectId> {
        let owed = self.with(peer, |conversation| {
            let owed = conversation.base.iter().filter(|_| conversation.named);
            let files = owed.flat_map(|owed| owed.files.keys());
            files.take(count).copied().collect()
        });
        owed.unwrap_or_default()
    }

    /// The peer has to get the contents of these files, and of those it may yet name, before its copy is
    /// complete.
    pub(crate) fn owe(&self, peer: ReplicaSlot, files: impl Iterator<Item = (ObjectId, u64)>) {
        self.with(peer, |conversation| {
            let sent_before = conversation.sent;
            let owed = conversation.base.get_or_insert_with(|| Owed {
                sent_before,
                ..Owed::default()
            });
            files.for_each(|(file, size)| owed.add(file, size));
            conversation.named = false;
        });
    }

    /// The peer has named all of these files, and all of them count as lacking.
    pub(crate) fn named(&self, peer: ReplicaSlot) {
        self.with(peer, |conversation| conversation.named = true);
    }

    /// Of so many files the contents belong to the copy that a peer begins with, and are not there.
    pub(crate) fn owed_files(&self, peer: ReplicaSlot) -> usize {
        let owed = self.with(peer, |conversation| {
            let owed = conversation.base.as_ref();
            owed.map_or(0, |owed| owed.files.len())
        });
        owed.unwrap_or(0)
    }

    /// Whether a peer said last that it holds nothing.
    pub(crate) fn takes_rows(&self, peer: ReplicaSlot) -> bool {
        let takes = self.with(peer, |conversation| conversation.takes_rows);
        takes == Some(true)
    }

    /// The rows of so many objects are sent to a peer from now on; it has those of the first ones.
    pub(crate) fn supplying(&self, peer: ReplicaSlot, objects: u64, first: u64) {
        self.with(peer, |conversation| {
            conversation.rows = Some((objects, first))
        });
    }

    /// All of them have been sent, or no more can be.
    pub(crate) fn supplied_all(&self, peer: ReplicaSlot) {
        self.with(peer, |conversation| conversation.supplying = false);
    }

    /// Those of so many more have been sent.
    pub(crate) fn supplied(&self, peer: ReplicaSlot, objects: u64) {
        self.with(peer, |conversation| {
            if let Some((_, sent)) = &mut conversation.rows {
                *sent += objects;
            }
        });
    }

    pub(crate) fn note_sent(&self, peer: ReplicaSlot, bytes: u64) {
        self.with(peer, |conversation| conversation.sent += bytes);
    }

    /// How far a peer is that takes a copy from here.
    pub(crate) fn supply(&self, peer: ReplicaSlot) -> Option<Remainder> {
        self.with(peer, |conversation| {
            let (rows, sent) = (conversation.rows, conversation.sent);
            let owed = conversation.base.as_ref();
            let comparing = rows.map(|(objects, done)| Remainder {
                stage: Stage::Comparing,
                objects_done: done,
                objects_left: objects.saturating_sub(done),
                bytes_done: sent,
                bytes_left: None,
            });
            owed.map(|owed| owed.remainder(sent)).or(comparing)
        })?
    }

    /// Bytes that a peer was sent in this conversation, and how far it had applied our stream when that began.
    pub(crate) fn course(&self, peer: ReplicaSlot) -> Option<(u64, u64)> {
        self.with(peer, |conversation| {
            Some((conversation.sent, conversation.begun_at?))
        })?
    }
}

/// A new incarnation of a peer is there, or the connection to it is new.
pub(crate) fn began(shared: &Arc<Shared>, peer: Sender) {
    let slot = peer.slot;
    if !shared.is_member(slot) || shared.inbox(slot).is_none() {
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
    shared.outcomes.note_began(peer);
    shared.conversations.begin(slot);
    shared.removed.begin(slot);
    let outbox = shared.post.begin(session);
    for lane in [Lane::Control, Lane::Metadata] {
        let delivery = tokio::spawn(deliver(shared.clone(), slot, outbox.clone(), lane));
        converse(shared, slot, delivery);
    }
    shared
        .engine
        .turn(|turn| turn.core.handle_connected(turn.now, &turn.tree, slot));
    let greeter = tokio::spawn(greet(shared.clone(), slot));
    converse(shared, slot, greeter);
}

/// Sends one-way messages to an incarnation of a peer, until it is gone.
async fn deliver(shared: Arc<Shared>, slot: ReplicaSlot, outbox: Arc<Outbox>, lane: Lane) {
    while outbox.deliver(lane).await == Delivered::SayAgain {
        tracing::info!(
            peer = slot.0,
            "a peer that was away is told anew how things are"
        );
        say_again(&shared, slot);
    }
}

/// Says again what was dropped for a peer that was away; it does the same, for it may not have been answered.
fn say_again(shared: &Arc<Shared>, slot: ReplicaSlot) {
    shared
        .engine
        .turn(|turn| turn.core.handle_connected(turn.now, &turn.tree, slot));
    losses::say_completed_again(shared, slot);
    if let Some(inbox) = shared.inbox(slot) {
        say_hello(shared, &inbox, true);
    }
}

/// Sends a list, however long, as fast as a peer takes it, in order. Nothing of it is dropped as long as the session lasts.
pub(crate) fn send_list(shared: &Shared, to: ReplicaSlot, messages: Vec<Message>) {
    let peer = shared.endpoint.get().and_then(|all| all.peer(to));
    let Some(Ok(session)) = peer.map(|peer| peer.session()) else {
        // Whoever is told such things is told anew in the next session.
        return;
    };
    let lists = shared.conversations.with(to, |with| with.lists.clone());
    let sending = tokio::spawn(async move {
        // The parts of two lists are not mixed.
        let lists = lists.unwrap_or_default();
        let _one_at_a_time = lists.lock().await;
        for message in messages {
            if let Err(error) = session.send(Lane::Metadata, message).await {
                return tracing::debug!(peer = to.0, %error, "a list is told anew in the next session");
            }
        }
    });
    converse(shared, to, sending);
}

/// That incarnation is gone, with everything it had not received.
pub(crate) fn ended(shared: &Arc<Shared>, peer: Sender) {
    tracing::warn!(peer = peer.slot.0, incarnation = %peer.incarnation, "a peer is gone");
    end(shared, peer.slot);
}

pub(crate) fn end(shared: &Arc<Shared>, slot: ReplicaSlot) {
    shared.post.end(slot);
    losses::forget_relays(shared, slot);
    shared.conversations.end(slot);
    if let Some(inbox) = shared.inbox(slot) {
        inbox.drop_pieces();
    }
    shared.engine.turn(|turn| {
        let now = turn.now;
        if let Some(backlog) = turn.ledger.unshipped.peer(slot) {
            backlog.lost(now);
        }
        turn.stirred = true;
    });
}

/// Says how far we have followed, once nothing of an earlier session is under way any more.
async fn greet(shared: Arc<Shared>, slot: ReplicaSlot) {
    let Some(inbox) = shared.inbox(slot) else {
        return;
    };
    // What is met of the peer is kept before anything here rests on it. A store that has failed ends the server.
    if shared.lineage.keep().await.is_err() {
        return;
    }
    // The semaphore is never closed.
    let quiet = inbox.putting.acquire_many(PUTTING_AT_ONCE).await;
    drop(quiet);
    let _between_records = inbox.applying.lock().await;
    say_hello(&shared, &inbox, true);
    removed::tell(&shared, slot);
}

/// Tells a peer, for the first time or anew, how far its stream is applied here.
pub(crate) fn say_hello(shared: &Shared, inbox: &Inbox, begins: bool) {
    let greeting = Greeting {
        begins,
        applied: inbox.applied(),
        held: *shared.held.borrow() as u8,
        taken: base::taken(shared, inbox.from),
        members: shared.member_list(),
        certificate: shared.signatures.certificate(),
    };
    let message = wire::body(wire::Kind::Greeting, &greeting);
    shared.post.send(inbox.from, Lane::Control, message);
}

/// A peer has said how far it is.
pub(crate) fn greeted(shared: &Arc<Shared>, from: ReplicaSlot, greeting: Greeting) {
    members::learn_members(shared, from, &greeting.members);
    shared.note_greeted(from);
    let proved = shared
        .signatures
        .verify_certificate(from, &greeting.certificate);
    if let (Ok(()), Some(inbox)) = (proved, shared.inbox(from)) {
        inbox.note_certificate(greeting.certificate);
    }
    if greeting.begins {
        shared
            .engine
            .turn(|turn| turn.core.handle_connected(turn.now, &turn.tree, from));
        views::say_entered(shared, from);
        losses::say_completed_again(shared, from);
        if let Some(inbox) = shared.inbox(from) {
            say_hello(shared, &inbox, false);
        }
        if !shared.standing.is_up_to_date() {
            base::ask_for_lacking(shared, from);
        }
    }
    let peer = shared.endpoint.get().and_then(|all| all.peer(from));
    let Some(Ok(session)) = peer.map(|peer| peer.session()) else {
        return;
    };
    let has = Held::from_number(greeting.held);
    if has > Held::Nothing && greeting.applied < shared.trimmed() {
        return too_far_behind(shared, from);
    }
    if has > Held::Nothing {
        shared.copies.end(from);
        applied(shared, from, greeting.applied);
    }
    let supplies = shared.supplies_base(from);
    shared.conversations.with(from, |conversation| {
        conversation.takes_rows = has == Held::Nothing;
    });
    if has == Held::Nothing {
        shared.engine.turn(|turn| {
            if let Some(backlog) = turn.ledger.unshipped.peer(from) {
                backlog.is_empty_handed();
            }
        });
        if supplies && first_time(shared, from, |conversation| &mut conversation.supplying) {
            let supply = tokio::spawn(base::supply_rows(shared.clone(), session, greeting.taken));
            converse(shared, from, supply);
        }
        return;
    }
    let applied = greeting.applied;
    let balanced = accounts::balance(shared.clone(), from, applied, has == Held::Everything);
    let starts = first_time(shared, from, |conversation| &mut conversation.sending);
    let shared_too = shared.clone();
    let talking = tokio::spawn(async move {
        balanced.await;
        if starts {
            start_sending(&shared_too, session, applied);
        }
    });
    converse(shared, from, talking);
}

/// What is told of once, with sums later.
const NOT_KEPT: &str = "updates that a peer lacks are not kept any more";

/// A peer lacks updates that are not kept any more: it has to take a whole copy.
pub(crate) fn too_far_behind(shared: &Shared, peer: ReplicaSlot) {
    if let Some(sum) = shared.is_to_tell(NOT_KEPT, peer) {
        tracing::warn!(
            peer = peer.0,
            %sum,
            "updates that a peer lacks are not kept any more; should this go on, raise `kept_updates`"
        );
    }
    let message = Message::new(wire::Kind::TooFar.number(), bytes::Bytes::new());
    shared.post.send(peer, Lane::Control, message);
}

/// Whether something happens for the first time in a conversation.
fn first_time(
    shared: &Shared,
    with: ReplicaSlot,
    flag: impl FnOnce(&mut Conversation) -> &mut bool,
) -> bool {
    let before = shared.conversations.with(with, |conversation| {
        std::mem::replace(flag(conversation), true)
    });
    before == Some(false)
}

/// Sends updates from behind a position on, and contents.
fn start_sending(shared: &Arc<Shared>, session: Session, from: u64) {
    let slot = session.peer().slot;
    let applied = shared.conversations.with(slot, |conversation| {
        conversation.begun_at = Some(from);
        conversation.applied.subscribe()
    });
    // A witness makes no updates. Where its positions begin after a start is nothing to tell, and would be refused.
    if let Some(applied) = applied.filter(|_| !shared.is_witness) {
        let records = streams::send(shared.clone(), session.clone(), from, applied);
        converse(shared, slot, tokio::spawn(records));
    }
    let contents = tokio::spawn(contents::ship(shared.clone(), session));
    converse(shared, slot, contents);
}

fn converse(shared: &Shared, with: ReplicaSlot, task: JoinHandle<()>) {
    // A task for a session that has ended meanwhile ends by itself.
    shared.conversations.with(with, |conversation| {
        conversation.tasks.retain(|task| !task.is_finished());
        conversation.tasks.push(task);
    });
}

/// A peer has applied our stream up to here, stably.
pub(crate) fn applied(shared: &Shared, by: ReplicaSlot, position: u64) {
    shared.engine.turn(|turn| {
        let applied = turn.ledger.applied.entry(by).or_default();
        *applied = position.max(*applied);
        turn.core
            .handle_applied(turn.now, &turn.tree, by, Position(position));
        turn.settle_former();
        turn.stirred = true;
    });
    shared.conversations.with(by, |conversation| {
        conversation.applied.send_replace(position);
    });
}

/// A peer has all content of a file; perhaps the last one of the copy that it began with.
pub(crate) fn has_content(shared: &Shared, peer: ReplicaSlot, file: ObjectId) {
    shared.conversations.with(peer, |conversation| {
        if let Some(owed) = &mut conversation.base {
            owed.remove(file);
        }
    });
    look_at_base(shared, peer);
}

/// Looks for files that a copy waits for and of which nothing is owed any more: they were removed, cut, or changed by
/// others, or are written so often that something new is always on its way.
pub(crate) fn let_go_of_settled(shared: &Shared) {
    for peer in shared.conversations.beginners() {
        let owed = shared.conversations.owed(peer, LOOKED_AT);
        let settled: Vec<ObjectId> = shared.engine.turn(|turn| {
            let Some(backlog) = turn.ledger.unshipped.peer(peer) else {
                return Vec::new();
            };
            owed.into_iter()
                .filter(|file| !backlog.owes(*file))
                .collect()
        });
        for file in settled {
            has_content(shared, peer, file);
        }
    }
}

/// Tells a peer when it has everything that it began without.
pub(crate) fn look_at_base(shared: &Shared, peer: ReplicaSlot) {
    let complete = shared.conversations.with(peer, |conversation| {
        let owed = conversation.base.as_ref()?;
        let complete = owed.files.is_empty() && conversation.named;
        complete.then(|| {
            conversation.base = None;
            conversation.rows = None;
        })
    });
    if let Some(Some(())) = complete {
        let message = wire::payload(wire::Kind::Base, &BasePage::Complete);
        shared.post.send(peer, Lane::Metadata, message);
    }
}
