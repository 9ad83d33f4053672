//! How replicas answer clients that read: from their own copy, or from the copy of the replica that
//! controls the directory.
//!
//! Only for runs without failing replicas. The store makes sure that no replica shows a version that a crash takes back and that
//! is then made again; the model's disks do not do this.

use super::{Event, World};
use crate::packet::Packet;
use crate::reading::{Answer, Entry, Question, Reader};
use control::ReplicaSlot;
use std::time::Duration;
use vfs::ObjectId;

impl World {
    /// A client that reads at a replica. Returns its number.
    pub fn reader(&mut self, home: ReplicaSlot) -> usize {
        assert!(!self.failures, "disks in the model may take versions back");
        self.readers.push(Reader::new(home));
        self.readers.len() - 1
    }

    /// Lets a reading client look up a name after a while.
    pub fn look(&mut self, after: Duration, reader: usize, directory: ObjectId, name: u64) {
        let question = Question {
            reader,
            directory,
            name,
            under: None,
        };
        let at = self.now.after(after);
        self.schedule(at, Event::Look(question));
    }

    /// Answers a question at a replica. Or passes it on to the primary, or back to its sender if another replica is primary
    /// by now. If the name is unknown there, the client asks again at another time.
    pub(super) fn take_question(&mut self, slot: ReplicaSlot, question: Question) {
        let home = self.readers[question.reader].home;
        let replica = self.replica(slot);
        let primary = replica
            .core
            .foreign_control(&replica.tree, question.directory);
        let same_copy = self.model.entries_from_copy_of_attributes;
        let elsewhere = primary.filter(|_| same_copy || question.under.is_none());
        match elsewhere {
            None => {
                if let Some(answer) = self.answer(slot, question) {
                    self.hand_answer(slot, question, answer);
                }
            }
            Some(primary) if slot == home => {
                self.send(slot, primary.holder, Packet::Question(question));
            }
            Some(_) => self.send(slot, home, Packet::Question(question)),
        }
    }

    fn answer(&self, slot: ReplicaSlot, question: Question) -> Option<Answer> {
        let tree = &self.replicas[&slot].tree;
        let of = tree.version(question.directory)?;
        if question.under.is_none() {
            return Some(Answer::Change(of));
        }
        let entries = tree.entries(question.directory)?;
        let object = entries.get(&question.name).copied();
        Some(Answer::Entry(Entry { object, of }))
    }

    fn hand_answer(&mut self, slot: ReplicaSlot, question: Question, answer: Answer) {
        let home = self.readers[question.reader].home;
        if slot == home {
            self.take_answer(question, answer);
        } else {
            self.send(slot, home, Packet::Answer(question, answer));
        }
    }

    /// The client's home has an answer, and passes it on.
    pub(super) fn take_answer(&mut self, question: Question, answer: Answer) {
        let reader = &mut self.readers[question.reader];
        let home = reader.home;
        if let Some(next) = reader.take(question, answer) {
            self.take_question(home, next);
        }
    }
}
