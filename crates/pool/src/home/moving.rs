//! Files that move to another placement (rule 2): one object has two contents, and the row names the old ones until the new ones are complete.
//!
//! The caller copies. This module decides which clients may use which contents meanwhile. [`Home::move_file`] records the new contents before their
//! first byte. [`Request::Alone`] ends layouts for writing; no new ones are given. [`Request::Seal`] fences the clients that may still read the
//! old contents. [`Request::Switch`] cuts the new contents to the size of the file, and makes the row name them. The same record has the
//! intent that removes the old contents. If the move ends earlier, by [`Request::GiveUp`] or a restart of the home, an intent removes the
//! new contents, and another attempt has another placement.

use super::command::{Command, Record};
use super::file::{File, FileRow, Job};
use super::{Home, Outcome, Owed, Recovered, Request};
use crate::message::{Act, ContentsId, Intent, IntentNumber};
use crate::numbers::{DataServerNumber, Generation};
use control::{Moment, OperationId};
use std::collections::BTreeSet;
use vfs::ObjectId;

/// A move of a file.
#[derive(Clone, Debug)]
pub(super) struct Moving {
    to: FileRow,
    /// No client uses the old contents directly any more.
    pub(super) is_sealed: bool,
}

impl Moving {
    pub(super) fn contents(&self) -> ContentsId {
        self.to.contents
    }

    pub(super) fn goes_to(&self, server: DataServerNumber) -> bool {
        self.to.members.contains(&server)
    }
}

/// The new contents are cut to the size of the file, and then the row changes.
#[derive(Clone, Debug)]
pub(super) struct Switching {
    operation: OperationId,
    pub(super) number: IntentNumber,
    size: u64,
}

impl Home {
    /// Begins to move a file to another placement, under a number that was never used for it. `row` is its row, as for
    /// [`Home::request`]. After [`Outcome::Done`], bytes may be written to the new contents. [`Outcome::NoMove`] if it is already being moved.
    pub fn move_file(
        &mut self,
        row: &FileRow,
        to: FileRow,
        operation: OperationId,
    ) -> Vec<Command> {
        let object = row.contents.object;
        let file = self.files.entry(object);
        let file = file.or_insert_with(|| File::new(row));
        let is_other = to.contents.object == object && to.contents != file.row.contents;
        if file.moving.is_some() || !is_other {
            self.answer(operation, Outcome::NoMove);
            return self.take_commands();
        }
        file.moving = Some(Moving {
            to: to.clone(),
            is_sealed: false,
        });
        if self.settings.rules.moves_noted_first() {
            self.record(Record::Moving(to));
        }
        self.answer(operation, Outcome::Done);
        self.take_commands()
    }

    /// Fences all clients that may read the old contents.
    pub(super) fn seal(&mut self, now: Moment, object: ObjectId, operation: OperationId) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let Some(moving) = &mut file.moving else {
            self.answer(operation, Outcome::NoMove);
            return;
        };
        moving.is_sealed = true;
        if !self.settings.rules.old_contents_fenced() {
            self.answer(operation, Outcome::Done);
        } else if file.holders.is_empty() {
            self.intend(now, object, Some(operation), Act::Fence);
        } else {
            self.recall(now, object, Some(operation), Act::Fence);
        }
    }

    /// Cuts the new contents to the size of the file.
    pub(super) fn begin_switch(
        &mut self,
        now: Moment,
        object: ObjectId,
        operation: OperationId,
        size: u64,
    ) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let is_unsettled = file.row.unsettled;
        let sealed = file.moving.as_mut().filter(|moving| moving.is_sealed);
        let Some(moving) = sealed.filter(|_| !is_unsettled) else {
            self.answer(operation, Outcome::NoMove);
            return;
        };
        // For tests, without a cut: a number of no intent.
        let mut number = IntentNumber(0);
        if self.settings.rules.new_contents_cut() {
            moving.to.generation = moving.to.generation.next();
            let to = moving.to.clone();
            number = self.intend_aside(&to, Act::Truncate(size));
        }
        if let Some(file) = self.files.get_mut(&object) {
            file.job = Some(Job::Switching(Switching {
                operation,
                number,
                size,
            }));
        }
        self.cut_to_size(now, object);
    }

    /// Makes an intent about contents that the row does not name.
    pub(super) fn intend_aside(&mut self, of: &FileRow, act: Act) -> IntentNumber {
        let owed = self.owed_aside(of, act);
        self.record(Record::Intend(owed.clone()));
        self.send_owed(&owed);
        owed.intent.number
    }

    fn owed_aside(&mut self, of: &FileRow, act: Act) -> Owed {
        let number = IntentNumber(self.next_intent);
        self.next_intent += 1;
        let stay = of.members.iter().copied();
        let owed = Owed {
            intent: Intent {
                number,
                contents: of.contents,
                generation: of.generation,
                act,
            },
            owed: stay
                .filter(|member| !self.dismissed.contains(member))
                .collect(),
            // No row waits for its result.
            in_row: true,
        };
        if !owed.owed.is_empty() {
            self.intents.insert(number, owed.clone());
        }
        owed
    }

    /// Ends a switch when all data servers of the new contents have cut them, or one of them does not answer.
    pub(super) fn cut_to_size(&mut self, now: Moment, object: ObjectId) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let Some(Job::Switching(switching)) = &file.job else {
            return;
        };
        let switching = switching.clone();
        let awaited = self.intents.get(&switching.number);
        let awaited = awaited.map(|owed| owed.owed.iter().map(|server| self.leased_until(*server)));
        match awaited.and_then(Iterator::max) {
            None => self.switch(object, &switching),
            Some(until) if now >= until => {
                self.give_move_up(object);
            }
            Some(_) => return,
        }
        self.advance(now, object);
    }

    /// When it is certain that a data server of the new contents does not answer.
    pub(super) fn switch_wakes(&self, switching: &Switching) -> Option<Moment> {
        let owed = self.intents.get(&switching.number)?.owed.iter();
        owed.map(|server| self.leased_until(*server)).max()
    }

    /// Makes the row name the new contents.
    fn switch(&mut self, object: ObjectId, switching: &Switching) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let Some(moving) = file.moving.take() else {
            return;
        };
        let row = FileRow {
            size: switching.size,
            unsettled: false,
            ..moving.to
        };
        let mut old = std::mem::replace(&mut file.row, row.clone());
        old.generation = old.generation.next();
        // The remaining holders could only read.
        file.seen.clear();
        file.holders.clear();
        file.compared_by = None;
        file.job = None;
        let old = self.owed_aside(&old, Act::Remove);
        let moved = Record::Moved {
            row,
            old: old.clone(),
        };
        self.record(moved);
        self.send_owed(&old);
        self.answer(switching.operation, Outcome::Done);
    }

    /// Removes the new contents. A caller that waits for a switch gets a failure.
    pub(super) fn give_move_up(&mut self, object: ObjectId) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let switching = match file.job.take() {
            Some(Job::Switching(switching)) => Some(switching),
            other => {
                file.job = other;
                None
            }
        };
        if let Some(mut moving) = file.moving.take() {
            moving.to.generation = moving.to.generation.next();
            self.remove_new(&moving.to);
        }
        if let Some(switching) = switching {
            self.answer(switching.operation, Outcome::NoMove);
        }
    }

    /// Removes the new contents of a file.
    fn remove_new(&mut self, to: &FileRow) {
        let owed = self.owed_aside(to, Act::Remove);
        self.record(Record::MoveGivenUp(owed.clone()));
        self.send_owed(&owed);
    }

    /// The contents of a file are gone. Removes the new contents, too.
    pub(super) fn gone_while_moved(&mut self, file: Option<&File>) {
        let moving = file.and_then(|file| file.moving.as_ref());
        if let Some(moving) = moving {
            let mut to = moving.to.clone();
            to.generation = to.generation.next();
            self.remove_new(&to);
        }
    }

    /// Ends the moves to a data server that is gone for ever.
    pub(super) fn move_elsewhere(&mut self, now: Moment, gone: DataServerNumber) {
        let files = self.files.iter();
        let with = files.filter(|(_, file)| {
            let moving = file.moving.as_ref();
            moving.is_some_and(|moving| moving.goes_to(gone))
        });
        for object in with.map(|(object, _)| *object).collect::<Vec<_>>() {
            self.give_move_up(object);
            self.advance(now, object);
        }
    }
}

impl Recovered {
    /// Gives up the moves that were active when the home stopped: the progress of the copies is unknown. The records must be on stable
    /// storage before a home starts with this.
    #[must_use]
    pub fn give_moves_up(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        for to in std::mem::take(&mut self.moves) {
            let number = IntentNumber(self.next_intent);
            self.next_intent += 1;
            let about = self.intents.iter().map(|owed| owed.intent);
            let about = about.filter(|intent| intent.contents == to.contents);
            let last: Generation = about
                .map(|intent| intent.generation)
                .max()
                .unwrap_or(to.generation);
            let known = |member: &&DataServerNumber| self.servers.contains_key(*member);
            let owed: BTreeSet<_> = to.members.iter().filter(known).copied().collect();
            let owed = Owed {
                intent: Intent {
                    number,
                    contents: to.contents,
                    generation: last.max(to.generation).next(),
                    act: Act::Remove,
                },
                owed,
                in_row: true,
            };
            if !owed.owed.is_empty() {
                self.intents.push(owed.clone());
            }
            records.push(Record::MoveGivenUp(owed));
        }
        records
    }
}

impl Request {
    /// Whether it is about a move of the file.
    pub(super) fn is_of_a_move(&self) -> bool {
        matches!(self, Request::Seal | Request::Switch(_) | Request::GiveUp)
    }
}
