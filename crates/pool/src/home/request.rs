//! The requests for files, and their order.

use super::Home;
use super::command::Record;
use super::file::{Held, Job};
use crate::handle::{Access, Capability, Handle};
use crate::message::Act;
use crate::numbers::DataServerNumber;
use control::{Moment, OperationId};
use std::collections::VecDeque;
use vfs::ObjectId;

/// A holder of a layout, by the caller's number. The home itself is a holder when it reads or writes for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder(pub u64);

/// A request for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A holder wants to use the data servers. If it asks again, it gets the larger of the two rights.
    Layout(Holder, Access),
    /// A holder returns its layout, and has no active requests at the data servers. Answered with the settled size, if no other
    /// holder writes.
    Return(Holder),
    /// A holder has lost what its layout depends on, and may still have active requests: it is fenced. Answered when no request of it
    /// can happen any more.
    Lost(Holder),
    /// Asks for the size.
    Look,
    /// A holder has written, and says that the file ends at this offset or later (LAYOUTCOMMIT).
    Commit(Holder, u64),
    /// Changes the contents while holders use them.
    Change(Act),
    /// Recalls the layouts of holders that may write, and fences these. Afterwards no client writes
    /// directly.
    Alone,
    /// Does nothing. Answered when the earlier changes are done.
    Behind,
    /// From now until the end of the move, no client may directly use the contents of a file that is moved.
    Seal,
    /// The new contents are complete and stable up to this size. Makes the row name them.
    Switch(u64),
    /// Gives the move up, and removes the new contents.
    GiveUp,
}

/// The result of an operation.
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
    /// The size. It includes everything that was answered before the operation began.
    Size(u64),
    /// It is done and stable.
    Done,
    /// The file's contents are gone.
    Gone,
    /// The file is not being moved, or it is already being moved, or a data server of the new contents did not cut them. In the last case the
    /// move is given up.
    NoMove,
}

impl Request {
    /// Whether it goes before requests that wait for possibly absent data servers.
    pub(super) fn is_change(&self) -> bool {
        let of_use = matches!(self, Request::Change(_) | Request::Alone | Request::Behind);
        of_use || self.is_of_a_move()
    }
}

impl Home {
    /// Handles at once what cannot wait: other requests may wait for a returned layout.
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

    /// Answers the queued layout requests of a holder that returns its layout.
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

    /// A change does not wait for an absent data server, nor for a question to it: the question is asked again after the change.
    fn go_first(&mut self, object: ObjectId, operation: OperationId, change: Request) {
        self.put_questions_off(object);
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let place = file.changes_queued();
        file.queue.insert(place, (operation, change));
    }

    /// Stops the present question, and asks it again after the changes.
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

    /// Handles the requests in the queue that can be done now.
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

    /// Whether a file is being moved, and this right is not given meanwhile.
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
            // Separates earlier writes from later ones.
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

    /// Makes the present row stable.
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
