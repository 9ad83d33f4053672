//! Files on their way to another placement (rule 2): two contents of one object, of which the row names the first until the second has
//! everything.
//!
//! The caller copies. Here it is decided who may use which contents meanwhile, in this order: [`Home::move_file`] notes the new contents
//! before their first byte, [`Request::Alone`] ends layouts for writing, of which none is given from then on; [`Request::Seal`] fences
//! the clients that may still read the old ones; [`Request::Switch`] has the new ones end where the file does, and makes them those of
//! the row, in one record with the intent that removes the old ones. Whatever comes between, [`Request::GiveUp`] and a restart of the
//! home included, removes the new ones by intent, and another attempt has another placement.

use super::command::{Command, Record};
use super::file::{File, FileRow, Job};
use super::{Home, Outcome, Owed, Recovered, Request};
use crate::message::{Act, ContentsId, Intent, IntentNumber};
use crate::numbers::{DataServerNumber, Generation};
use control::{Moment, OperationId};
use std::collections::BTreeSet;
use vfs::ObjectId;

/// Where a file is being moved.
#[derive(Clone, Debug)]
pub(super) struct Moving {
    to: FileRow,
    /// Nobody uses the old contents past the home.
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
    /// A file is to get another placement, under a number that was never used for it. `row` is what its row says, as for
    /// [`Home::request`]; behind [`Outcome::Done`] bytes may be written to the new contents. [`Outcome::NoMove`] where it is being moved.
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

    /// Fences everybody who may read the old contents.
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

    /// Has the new contents end where the file does.
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
        // Without a cut it is one that nobody owes.
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

    /// Something is intended about contents that are not those of the row.
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
            // No row waits for what comes of it.
            in_row: true,
        };
        if !owed.owed.is_empty() {
            self.intents.insert(number, owed.clone());
        }
        owed
    }

    /// Goes on with a switch when all data servers of the new contents have cut them, or one of them does not answer.
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

    /// When it is known that a data server of the new contents does not answer.
    pub(super) fn switch_wakes(&self, switching: &Switching) -> Option<Moment> {
        let owed = self.intents.get(&switching.number)?.owed.iter();
        owed.map(|server| self.leased_until(*server)).max()
    }

    /// From now on the row names the new contents.
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
        // Only what was read by them counted.
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

    /// Removes the new contents. A caller that waits for a switch hears that there is none.
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

    /// What was to become the contents of a file goes.
    fn remove_new(&mut self, to: &FileRow) {
        let owed = self.owed_aside(to, Act::Remove);
        self.record(Record::MoveGivenUp(owed.clone()));
        self.send_owed(&owed);
    }

    /// The contents of a file are gone, and those that were to come go, too.
    pub(super) fn gone_while_moved(&mut self, file: Option<&File>) {
        let moving = file.and_then(|file| file.moving.as_ref());
        if let Some(moving) = moving {
            let mut to = moving.to.clone();
            to.generation = to.generation.next();
            self.remove_new(&to);
        }
    }

    /// A data server is gone for ever to which a file is being moved.
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
    /// Gives up the moves that were under way when the home was stopped: nobody knows what was copied. The records belong on stable
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
    /// It is about a move of the file.
    pub(super) fn is_of_a_move(&self) -> bool {
        matches!(self, Request::Seal | Request::Switch(_) | Request::GiveUp)
    }
}
