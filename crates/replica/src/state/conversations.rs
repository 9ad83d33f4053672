//! The state of the conversation with each peer that has a session.
//!
//! What must never enter: what is said (`replication::conversing`).

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use vfs::{ObjectId, ReplicaSlot};

use crate::state::copies::Held;
use crate::state::lists::Lists;
use crate::state::locks::Table;
use crate::state::rejoins::{Remainder, Stage};

/// The conversation with each peer that has a session.
#[derive(Default)]
pub(crate) struct Conversations(Table<BTreeMap<ReplicaSlot, Conversation>>);

#[derive(Default)]
pub(crate) struct Conversation {
    pub(crate) tasks: Vec<JoinHandle<()>>,
    /// Lists that the peer has not taken yet.
    pub(crate) lists: Arc<Lists>,
    /// This replica's stream is being sent. The sending stops if the peer lacks updates that are no longer kept.
    pub(crate) sending: bool,
    /// Contents are being sent.
    pub(crate) shipping: bool,
    /// How far the peer says it has applied this replica's stream.
    pub(crate) applied: watch::Sender<u64>,
    /// The rows of the copy with which the peer begins are being sent.
    pub(crate) supplying: bool,
    /// The copy that the peer takes from here: the number of all objects and of those sent; `None` once the peer has all contents.
    pub(crate) rows: Option<(u64, u64)>,
    /// The peer began with a copy from here, and lacks these files of it.
    pub(crate) base: Option<Owed>,
    /// It has named all of them.
    pub(crate) named: bool,
    /// A part of the list with which it names them was not taken.
    pub(crate) refused: bool,
    /// Bytes of rows, updates and contents that it was sent.
    pub(crate) sent: u64,
    /// How far it had applied this replica's stream when the conversation began.
    pub(crate) begun_at: Option<u64>,
    /// How much of the tree it holds, by its last report.
    pub(crate) held: Option<Held>,
    /// It has greeted.
    pub(crate) begun: bool,
    /// It was greeted.
    pub(crate) has_greeted: bool,
    /// How many files it has asked for, not counting those of copies: requests that have arrived, and the number that it reported.
    pub(crate) wishes_heard: u64,
    pub(crate) wished: u64,
}

/// Files of a copy whose contents the peer lacks, with their sizes.
#[derive(Default)]
pub(crate) struct Owed {
    pub(crate) files: BTreeMap<ObjectId, u64>,
    pub(crate) bytes: u64,
    /// The number of all files that were ever named.
    pub(crate) named: u64,
    pub(crate) named_bytes: u64,
    /// Bytes that the peer had been sent before.
    pub(crate) sent_before: u64,
}

impl Owed {
    fn add(&mut self, file: ObjectId, size: u64) {
        if self.files.insert(file, size).is_none() {
            self.bytes = self.bytes.saturating_add(size);
            self.named_bytes = self.named_bytes.saturating_add(size);
            self.named += 1;
        }
    }

    pub(crate) fn remove(&mut self, file: ObjectId) {
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
            // Bytes already sent of incomplete files are not left.
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
    pub(crate) fn with<T>(
        &self,
        peer: ReplicaSlot,
        work: impl FnOnce(&mut Conversation) -> T,
    ) -> Option<T> {
        let mut all = self.0.lock();
        all.get_mut(&peer).map(work)
    }

    pub(crate) fn begin(&self, peer: ReplicaSlot) {
        let mut all = self.0.lock();
        all.insert(peer, Conversation::default());
    }

    pub(crate) fn contains(&self, peer: ReplicaSlot) -> bool {
        let all = self.0.lock();
        all.contains_key(&peer)
    }

    pub(crate) fn end_all(&self) {
        let mut all = self.0.lock();
        all.clear();
    }

    pub(crate) fn end(&self, peer: ReplicaSlot) {
        let mut all = self.0.lock();
        all.remove(&peer);
    }

    /// The peers that begin with a copy from here and lack some of it.
    pub(crate) fn beginners(&self) -> Vec<ReplicaSlot> {
        let all = self.0.lock();
        let beginners = all.iter().filter(|(_, with)| with.base.is_some());
        beginners.map(|(slot, _)| *slot).collect()
    }

    /// Whether the contents of a file belong to the copy with which a peer begins.
    pub(crate) fn owes(&self, peer: ReplicaSlot, file: ObjectId) -> bool {
        let owes = self.with(peer, |conversation| {
            let owed = conversation.base.as_ref();
            owed.is_some_and(|owed| owed.files.contains_key(&file))
        });
        owes == Some(true)
    }

    /// The first of these files, at most `count`, once all are named.
    pub(crate) fn owed(&self, peer: ReplicaSlot, count: usize) -> Vec<ObjectId> {
        let owed = self.with(peer, |conversation| {
            let owed = conversation.base.iter().filter(|_| conversation.named);
            let files = owed.flat_map(|owed| owed.files.keys());
            files.take(count).copied().collect()
        });
        owed.unwrap_or_default()
    }

    /// The peer needs the contents of these files, and of those it may yet name, before its copy is complete.
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

    /// A list of such files begins.
    pub(crate) fn begin_list(&self, peer: ReplicaSlot) {
        self.with(peer, |conversation| conversation.refused = false);
    }

    /// A part of the list was not taken. The peer must send all of it again (counterexample 105).
    pub(crate) fn refuse(&self, peer: ReplicaSlot) {
        self.with(peer, |conversation| {
            conversation.refused = true;
            conversation.named = false;
        });
    }

    /// The list ends. Returns whether the peer has named all of these files; then all of them count as lacking.
    pub(crate) fn named(&self, peer: ReplicaSlot) -> bool {
        let named = self.with(peer, |conversation| {
            conversation.named = !conversation.refused;
            conversation.named
        });
        named.unwrap_or(false)
    }

    /// How many files of the copy with which a peer begins still lack their contents there.
    pub(crate) fn owed_files(&self, peer: ReplicaSlot) -> usize {
        let owed = self.with(peer, |conversation| {
            let owed = conversation.base.as_ref();
            owed.map_or(0, |owed| owed.files.len())
        });
        owed.unwrap_or(0)
    }

    /// How many messages and files wait in the lists for all peers.
    pub(crate) fn listed(&self) -> usize {
        let all = self.0.lock();
        all.values().map(|with| with.lists.len()).sum()
    }

    /// Whether a peer's last report says that it holds nothing.
    pub(crate) fn takes_rows(&self, peer: ReplicaSlot) -> bool {
        self.held(peer) == Some(Held::Nothing)
    }

    /// How many files a peer was asked for in this conversation, not counting those of copies.
    pub(crate) fn asked_for(&self, peer: ReplicaSlot) -> u64 {
        let asked_for = self.with(peer, |conversation| conversation.lists.named());
        asked_for.unwrap_or(u64::MAX)
    }

    /// How far a peer has said in this conversation that it has applied this replica's stream.
    pub(crate) fn applied(&self, peer: ReplicaSlot) -> u64 {
        let applied = self.with(peer, |conversation| *conversation.applied.borrow());
        applied.unwrap_or(0)
    }

    /// Whether a peer's last report says that it holds everything, and all requests that it had made by then have arrived.
    pub(crate) fn says_whole(&self, peer: ReplicaSlot) -> bool {
        let says = self.with(peer, |conversation| {
            let has_come = conversation.wishes_heard >= conversation.wished;
            conversation.held == Some(Held::Everything) && has_come
        });
        says == Some(true)
    }

    /// How much of the tree a peer holds, if it has said so in this session.
    pub(crate) fn held(&self, peer: ReplicaSlot) -> Option<Held> {
        self.with(peer, |conversation| conversation.held)?
    }

    /// From now on the rows of `objects` objects are sent to a peer; it already has those of the first `first`.
    pub(crate) fn supplying(&self, peer: ReplicaSlot, objects: u64, first: u64) {
        self.with(peer, |conversation| {
            conversation.rows = Some((objects, first))
        });
    }

    /// All rows have been sent, or no more can be sent.
    pub(crate) fn supplied_all(&self, peer: ReplicaSlot) {
        self.with(peer, |conversation| conversation.supplying = false);
    }

    /// The rows of `objects` more objects have been sent.
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

    /// The progress of a peer that takes a copy from here.
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

    /// Bytes that a peer was sent in this conversation, and how far it had applied this replica's stream when the conversation began.
    pub(crate) fn course(&self, peer: ReplicaSlot) -> Option<(u64, u64)> {
        self.with(peer, |conversation| {
            Some((conversation.sent, conversation.begun_at?))
        })?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a list in two parts the first named a file that was not known yet. The rest of the copy was sent without the files of the first part, as
    /// complete.
    #[test]
    fn counterexample_105_a_list_of_which_a_part_was_not_taken_is_not_complete() {
        let (conversations, peer) = (Conversations::default(), ReplicaSlot(2));
        assert!(!conversations.named(peer), "there is no session");
        conversations.begin(peer);
        let part = |number| std::iter::once((ObjectId::from_u64(number), 1));
        conversations.begin_list(peer);
        conversations.owe(peer, part(1));
        conversations.refuse(peer);
        conversations.owe(peer, part(3));
        assert!(!conversations.named(peer));
        conversations.begin_list(peer);
        for number in 1..4 {
            conversations.owe(peer, part(number));
        }
        assert!(conversations.named(peer));
        conversations.refuse(peer);
        assert!(!conversations.named(peer), "its first part was not taken");
    }
}
