//! Lists of files for one peer, which may be long, until the peer has taken them.
//!
//! They are sent as fast as the peer takes them, one part after the other. The number of files bounds the memory, even if the peer takes nothing for
//! long: a repeated list replaces the earlier one, and wanted files are a set.
//!
//! What must never enter: what a list says, and when it is sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use peer::Message;
use vfs::{ObjectId, ReplicaSlot};

use crate::state::locks::{Inner, InnerGuard};
use crate::state::wire::{self, Kind, Wanted};

/// One message names at most this many files.
pub(crate) const FILES_AT_ONCE: usize = 1024;

/// What a list is about; there is at most one list of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    /// The files that the sender lacks of a copy.
    Copy,
    /// The files of a lost replica that are not complete at the sender.
    Incomplete(ReplicaSlot),
}

#[derive(Default)]
struct Waiting {
    lists: BTreeMap<List, VecDeque<Message>>,
    wanted: BTreeSet<ObjectId>,
    /// How many files were asked for in this conversation; `None` until it is known what is lacking.
    named: Option<u64>,
    /// The peer must be told the count, even if nothing more is asked for.
    tells: bool,
    /// At the last request for files: how far the peer's stream was applied here, and how often copies had given way.
    asked_at: (u64, u64),
    /// A task sends what waits.
    is_sending: bool,
}

/// What waits for one peer.
#[derive(Default)]
pub(crate) struct Lists(Inner<Waiting>);

impl Lists {
    fn waiting(&self) -> InnerGuard<'_, Waiting> {
        self.0.lock()
    }

    /// Queues a list and replaces an earlier list of its kind. Returns whether the caller has to start sending.
    pub(crate) fn tell(&self, list: List, messages: Vec<Message>) -> bool {
        let mut waiting = self.waiting();
        waiting.lists.insert(list, messages.into());
        !std::mem::replace(&mut waiting.is_sending, true)
    }

    /// Asks for the contents of files; without files, tells only the count. `applied`: how far the peer's stream is applied here; `turn`: how often
    /// copies have given way. Returns whether the caller has to start sending.
    pub(crate) fn want(&self, files: &[ObjectId], (applied, turn): (u64, u64)) -> bool {
        let mut waiting = self.waiting();
        waiting.wanted.extend(files);
        // Another copy may have given way since the caller looked, and what is sent from now on answers that, too.
        waiting.asked_at = (applied, turn.max(waiting.asked_at.1));
        waiting.tells = true;
        !std::mem::replace(&mut waiting.is_sending, true)
    }

    /// How many files were asked for, including those that wait. `u64::MAX` before the peer has said something in the conversation: only then does
    /// this replica ask for what is lacking, and tell how many files that are.
    pub(crate) fn named(&self) -> u64 {
        let waiting = self.waiting();
        let named = waiting.named;
        named.map_or(u64::MAX, |named| named + waiting.wanted.len() as u64)
    }

    /// The peer has said something: what is lacking is asked for now.
    pub(crate) fn count(&self) {
        self.waiting().named.get_or_insert_default();
    }

    /// The next message to send; `None`: nothing waits, and the sending task is done.
    pub(crate) fn next(&self) -> Option<Message> {
        let mut waiting = self.waiting();
        let next = waiting.next();
        waiting.is_sending = next.is_some();
        next
    }

    /// Messages and files that wait.
    pub(crate) fn len(&self) -> usize {
        let waiting = self.waiting();
        let messages = waiting.lists.values().map(VecDeque::len);
        messages.sum::<usize>() + waiting.wanted.len()
    }
}

impl Waiting {
    fn next(&mut self) -> Option<Message> {
        while let Some(mut first) = self.lists.first_entry() {
            if let Some(message) = first.get_mut().pop_front() {
                return Some(message);
            }
            first.remove();
        }
        let first: Vec<ObjectId> = self.wanted.iter().take(FILES_AT_ONCE).copied().collect();
        self.wanted
            .retain(|file| first.binary_search(file).is_err());
        if let Some(named) = &mut self.named {
            *named += first.len() as u64;
        }
        let (applied, turn) = self.asked_at;
        let tells = std::mem::take(&mut self.tells);
        (tells || !first.is_empty()).then(|| {
            let wanted = Wanted {
                copy: false,
                applied,
                files: first,
                first: true,
                last: self.wanted.is_empty(),
                named: self.named.unwrap_or(0),
                turn,
                places: Vec::new(),
            };
            wire::body(Kind::Wanted, &wanted)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn message(number: u32) -> Message {
        Message::new(number, "")
    }

    /// A survivor told twice a minute what it lacks of a lost replica, and all these lists were kept for a peer that took nothing.
    #[test]
    fn what_is_told_again_and_again_takes_the_place_of_what_was_not_sent() {
        let (lists, lost) = (Lists::default(), List::Incomplete(ReplicaSlot(3)));
        assert!(lists.tell(lost, vec![message(1), message(2)]));
        assert_eq!(lists.next().unwrap().kind, 1);
        for _ in 0..1000 {
            assert!(!lists.tell(lost, vec![message(3), message(4)]));
            assert!(!lists.want(&[ObjectId::from_u64(7), ObjectId::from_u64(8)], (0, 0)));
        }
        assert_eq!(lists.len(), 4);
        let sent = [lists.next(), lists.next()].map(|sent| sent.unwrap().kind);
        assert_eq!(sent, [3, 4]);
        let wanted: Wanted = wire::decode(&lists.next().unwrap().body).unwrap();
        assert_eq!((wanted.files.len(), wanted.last), (2, true));
        assert!(lists.next().is_none());
        assert!(lists.want(&[ObjectId::from_u64(7)], (0, 0)), "nobody sends");
    }

    #[test]
    fn all_that_is_wanted_is_asked_for_in_parts() {
        let lists = Lists::default();
        let files = (1..=2500).map(ObjectId::from_u64);
        assert_eq!(lists.named(), u64::MAX, "nobody counts yet");
        lists.count();
        lists.want(&files.clone().collect::<Vec<_>>(), (9, 4));
        assert_eq!(lists.named(), 2500);
        let parts = std::iter::from_fn(|| lists.next());
        let parts = parts.map(|part| wire::decode::<Wanted>(&part.body).unwrap());
        let parts: Vec<Wanted> = parts.collect();
        assert_eq!(parts.len(), 3);
        assert!(parts[2].last && !parts[0].last);
        assert!(parts.iter().all(|part| (part.applied, part.turn) == (9, 4)));
        let named: Vec<u64> = parts.iter().map(|part| part.named).collect();
        assert_eq!((named, lists.named()), (vec![1024, 2048, 2500], 2500));
        lists.count();
        lists.want(&[], (10, 4));
        let told: Wanted = wire::decode(&lists.next().unwrap().body).unwrap();
        assert_eq!((told.named, told.files, told.last), (2500, vec![], true));
        lists.want(&[], (11, 3));
        let told: Wanted = wire::decode(&lists.next().unwrap().body).unwrap();
        assert_eq!((told.applied, told.turn), (11, 4), "one that looked before");
        assert!(lists.next().is_none());
        let named = parts.into_iter().flat_map(|part| part.files);
        assert!(named.eq(files));
    }
}
