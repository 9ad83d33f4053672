//! What is done with files, and in which order.

use super::Home;
use super::command::Record;
use super::file::{Held, Job};
use crate::handle::{Access, Capability, Handle};
use crate::message::Act;
use crate::numbers::DataServerNumber;
use control::{Moment, OperationId};
use std::collections::VecDeque;
use vfs::ObjectId;

/// Who holds a layout, by the caller's number. The home itself is one, when it reads or writes for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder(pub u64);

/// What is wanted of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Somebody wants to use the data servers. A holder that asks again has the larger right of both.
    Layout(Holder, Access),
    /// A holder gives its layout back, and has nothing under way at the data servers. Answered with the settled size, if nobody
    /// else writes.
    Return(Holder),
    /// A holder has lost what its layout rests on, and may still have requests under way: it is fenced. Answered when nothing of
    /// it can happen any more.
    Lost(Holder),
    /// How large is the file?
    Look,
    /// A holder says that it has written, and that the file ends at this offset, at least (LAYOUTCOMMIT).
    Commit(Holder, u64),
    /// The contents are changed under everybody's feet.
    Change(Act),
    /// The holders that may write are asked for their layouts, and fenced. Afterwards nobody writes
    /// past the home.
    Alone,
    /// Nothing. Answered when the changes that were asked for before are done.
    Behind,
    /// Nobody may use the contents of a file that is moved past the home, from now until the move has ended.
    Seal,
    /// The new contents have everything, stably, up to this size, and become those of the row.
    Switch(u64),
    /// The file is not moved. Its new contents go.
    GiveUp,
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A handle for each data server of the device group, in order.
    Layout(Vec<(DataServerNumber, Handle)>),
    /// Not while layouts are being recalled; ask again (`NFS4ERR_RECALLCONFLICT`).
    Conflict,
    /// Not now, since a data server is away: the home reads and writes for the client (`NFS4ERR_BADLAYOUT`).
    ThroughHome,
    /// The asker holds no layout.
    NoLayout,
    /// The size, with everything that was answered before the operation began.
    Size(u64),
    /// It is done, stably.
    Done,
    /// The file's contents are gone.
    Gone,
    /// The file is not being moved, or was being moved already, or a data server of the new contents did not do its part; these are
    /// given up then.
    NoMove,
}

impl Request {
    /// It goes before whatever waits for data servers that may be away.
    pub(super) fn is_change(&self) -> bool {
        let of_use = matches!(self, Request::Change(_) | Request::Alone | Request::Behind);
        of_use || self.is_of_a_move()
    }
}

impl Home {
    /// What cannot wait for the others: a returned layout may be what they wait for.
    pub(super) fn accept(&mut self, object: ObjectId, operation: OperationId, request: Request) {
        let rules = self.settings.rules;
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        match request {
            Request::Return(holder) | Request::Lost(holder) => {
                let is_lost = matches!(request, Request::Lost(_));
                let held = file.holders.remove(&holder).is_some();
                self.withdraw(object, holder);
                if held && is_lost && rules.losers_fenced() {
                    self.go_first(object, operation, Request::Change(Act::Fence));
                } else if is_lost && !held {
                    self.go_first(object, operation, Request::Behind);
                } else if let Some(file) = self.files.get_mut(&object) {
                    file.queue.push_back((operation, Request::Look));
                }
            }
            Request::Commit(holder, _) if !file.holders.contains_key(&holder) => {
                self.answer(operation, Outcome::NoLayout);
            }
            Request::Layout(..)
                if matches!(file.job, Some(Job::Recalling(_) | Job::Carrying(_))) =>
            {
                self.answer(operation, Outcome::Conflict);
            }
            _ if request.is_change() => self.go_first(object, operation, request),
            _ => file.queue.push_back((operation, request)),
        }
    }

    /// A holder that gives a layout back waits for no other request.
    fn withdraw(&mut self, object: ObjectId, holder: Holder) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let is_of = |(_, queued): &(OperationId, Request)| matches!(queued, Request::Layout(asker, _) if *asker == holder);
        let (withdrawn, kept) = std::mem::take(&mut file.queue).into_iter().partition(is_of);
        file.queue = kept;
        let withdrawn: VecDeque<(OperationId, Request)> = withdrawn;
        for (operation, _) in withdrawn {
            self.answer(operation, Outcome::ThroughHome);
        }
    }

    /// A change waits for no data server that is away, and so for no question either: what was asked is asked again behind it.
    fn go_first(&mut self, object: ObjectId, operation: OperationId, change: Request) {
        self.put_questions_off(object);
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let place = file.changes_queued();
        file.queue.insert(place, (operation, change));
    }

    /// What was asked is asked again, behind the changes.
    pub(super) fn put_questions_off(&mut self, object: ObjectId) {
        let asked_again = self.stop_asking(object);
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let place = file.changes_queued();
        for (behind, operation) in asked_again.into_iter().enumerate() {
            file.queue
                .insert(place + behind, (operation, Request::Look));
        }
    }

    /// Takes from the queue what can be done now.
    pub(super) fn advance(&mut self, now: Moment, object: ObjectId) {
        while let Some(file) = self.files.get_mut(&object) {
            if let Some(Job::Recalling(_)) = &file.job
                && file.holders.is_empty()
            {
                self.recalled(now, object);
                continue;
            }
            if file.job.is_some() {
                return;
            }
            let Some((operation, request)) = file.queue.pop_front() else {
                break;
            };
            match request {
                Request::Layout(holder, access) => {
                    self.grant(now, object, operation, (holder, access));
                }
                Request::Commit(_, claimed) if !self.settings.rules.size_asked() => {
                    file.row.size = file.row.size.max(claimed);
                    self.save(object, true);
                    self.answer_size(object, operation);
                }
                Request::Change(act) => self.change(now, object, operation, act),
                Request::Alone if file.has_writers() => {
                    self.recall(now, object, Some(operation), Act::Fence);
                }
                Request::Alone | Request::Behind => {
                    self.answer(operation, Outcome::Done);
                }
                Request::Seal => self.seal(now, object, operation),
                Request::Switch(size) => self.begin_switch(now, object, operation, size),
                Request::GiveUp => {
                    self.give_move_up(object);
                    self.answer(operation, Outcome::Done);
                }
                _ => self.look_at(now, object, operation),
            }
        }
        if self.files.get(&object).is_some_and(super::File::is_idle) {
            self.files.remove(&object);
        }
    }

    /// Whether a file is being moved, and nobody is given this right meanwhile.
    fn is_kept_back(&self, object: ObjectId, access: Access) -> bool {
        let rules = self.settings.rules;
        let file = self.files.get(&object);
        file.and_then(|file| file.moving.as_ref())
            .is_some_and(|moving| {
                let writes = access == Access::ReadWrite && rules.moves_end_writing();
                writes || (moving.is_sealed && rules.old_contents_fenced())
            })
    }

    fn grant(
        &mut self,
        now: Moment,
        object: ObjectId,
        operation: OperationId,
        (holder, access): (Holder, Access),
    ) {
        let Some(file) = self.files.get(&object) else {
            return;
        };
        let mut members = file.row.members.iter();
        let all_serve = members.all(|member| self.serves(now, *member));
        let is_bound = self
            .clients_until
            .is_some_and(|until| access == Access::ReadWrite || until <= now);
        if !all_serve || is_bound || self.is_kept_back(object, access) {
            self.answer(operation, Outcome::ThroughHome);
            return;
        }
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let is_first = access == Access::ReadWrite && !file.has_writers();
        let is_unsettled = file.row.unsettled && !file.has_writers();
        if is_unsettled || (is_first && file.compared_by != Some(operation)) {
            // What was before is told apart from what comes now.
            file.compared_by = Some(operation);
            let again = (operation, Request::Layout(holder, access));
            self.settle_first(now, object, again);
            return;
        }
        let key = self.keys.sealing().clone();
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let before = file.holders.get(&holder).map(|held| held.access);
        let access = before.map_or(access, |before| access.max(before));
        let key_number = key.number();
        file.holders.insert(
            holder,
            Held {
                access,
                key: key_number,
            },
        );
        if access == Access::ReadWrite && !file.row.unsettled {
            file.row.unsettled = true;
            if self.settings.rules.unsettled_first() {
                self.save(object, false);
            }
        }
        let Some(file) = self.files.get(&object) else {
            return;
        };
        let capability = Capability {
            home: self.number,
            issue: self.issue,
            object,
            placement: file.row.contents.placement,
            generation: file.row.generation,
            access,
        };
        let members = file.row.members.iter();
        let handles = members.map(|member| (*member, key.seal(&capability, *member)));
        let outcome = Outcome::Layout(handles.collect());
        self.answer(operation, outcome);
    }

    /// The row is made stable as it is now.
    pub(super) fn save(&mut self, object: ObjectId, changed: bool) {
        let Some(file) = self.files.get(&object) else {
            return;
        };
        let record = Record::Row {
            row: file.row.clone(),
            changed,
            intent: None,
        };
        self.record(record);
    }

    pub(super) fn answer_size(&mut self, object: ObjectId, operation: OperationId) {
        if let Some(file) = self.files.get(&object) {
            self.answer(operation, Outcome::Size(file.row.size));
        }
    }
}
