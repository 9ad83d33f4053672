//! What replicas do with operations that were admitted, and with updates that arrive.
//!
//! This is the part of a replicated file system that control depends on. The cores decide when something may
//! happen.

use super::{CLOSE, Event, Operation, World, place};
use crate::invariants::Closed;
use crate::packet::Packet;
use crate::replica::{Content, StreamUpdate};
use crate::site::{Change, Deferred};
use crate::tree::{Edit, Intent, Outcome};
use control::{ControlName, Moment, OperationId, Position, ReplicaSlot, Subject, Tree};
use std::sync::Arc;
use vfs::ObjectId;

impl World {
    /// Carries an admitted operation out, unless the tree has changed while it waited.
    pub(super) fn execute(&mut self, slot: ReplicaSlot, number: u64, under: Vec<ControlName>) {
        if !self.may_execute(slot, number) {
            return;
        }
        let operation = &self.operations[place(number)];
        let (intent, update) = (operation.intent, operation.update);
        let resolved = self.replica(slot).tree.resolve(&intent);
        if resolved.is_none() || resolved != update {
            self.begin(slot, number);
            return;
        }
        if let Intent::Write(_) = intent {
            self.begin_write(slot, number, under);
        } else if self.refuses_lock(slot, &intent) {
            self.finish(slot, number, Outcome::Refused);
        } else {
            self.check_controlled_by_no_other(slot, &intent);
            self.change_tree(slot, number, &intent, under);
            self.note_unlocked(number);
            self.finish_when_stable(slot, number);
        }
    }

    /// A write takes time. Its controls must not end meanwhile, even when they are revoked.
    fn begin_write(&mut self, slot: ReplicaSlot, number: u64, under: Vec<ControlName>) {
        self.replica(slot).core.hold(&under);
        let slowest = u64::try_from(self.slowest_write.as_micros()).unwrap_or(u64::MAX);
        if slowest == 0 {
            self.write(slot, number, &under);
            return;
        }
        let at = Moment(self.now.0 + self.random.below(slowest));
        self.schedule(at, Event::Write(slot, number, under));
    }

    fn check_controlled_by_no_other(&mut self, slot: ReplicaSlot, intent: &Intent) {
        let edits = self.replica(slot).tree.edits(intent, ObjectId::ROOT);
        let touched = edits.iter().filter_map(|edit| match edit {
            Edit::Version { object, version } => Some((*object, *version)),
            _ => None,
        });
        for (object, version) in touched {
            let newest = self.newest.get(&object).copied().unwrap_or(0);
            let previous = self.replica(slot).tree.version(object).unwrap_or(0);
            if previous != newest {
                let sight = format!(
                    "replica {} changes {object} from version {previous} while {newest} exists",
                    slot.0,
                );
                self.report("I4 (updates build on the newest version)", sight);
            }
            self.newest.insert(object, version);
            self.maker.insert(object, slot);
        }
    }

    /// Carries a write out, unless a client of the same replica has removed the file meanwhile.
    pub(super) fn write(&mut self, slot: ReplicaSlot, number: u64, under: &[ControlName]) {
        let now = self.local(slot);
        if !self.may_write(slot, number, under) {
            return;
        }
        let intent = self.operations[place(number)].intent;
        let Intent::Write(file) = intent else {
            return;
        };
        if self.replica(slot).tree.resolve(&intent).is_some() {
            self.check_controlled_by_no_other(slot, &intent);
            self.write_content(slot, number, file, under);
        } else {
            self.finish(slot, number, Outcome::Refused);
        }
        let replica = self.replica(slot);
        replica.core.handle_let_go(now, &replica.tree, under);
    }

    fn write_content(
        &mut self,
        slot: ReplicaSlot,
        number: u64,
        file: ObjectId,
        under: &[ControlName],
    ) {
        let replica = self.replica(slot);
        let version = replica.tree.next_version(file);
        let edit = Edit::Version {
            object: file,
            version,
        };
        replica.tree.apply(&edit);
        let follows = Position(replica.stream.len() as u64);
        let content = Content {
            file,
            version,
            follows,
        };
        let others = self.others_with_data(slot);
        let nobody = others.is_empty();
        let now = self.local(slot);
        let replica = self.replica(slot);
        replica.unshipped.insert(file, (content, others));
        replica.core.handle_data_unshipped(file, under);
        if nobody {
            replica.unshipped.remove(&file);
            replica.core.handle_data_shipped(now, &replica.tree, file);
        }
        self.store(slot, Change::Wrote(file, version));
        self.when_stable(slot, Deferred::Wrote(number, content));
    }

    /// A written content is stable: its close may be answered, and the content is sent to the replicas that
    /// lack it.
    pub(super) fn close_written(&mut self, slot: ReplicaSlot, number: u64, content: Content) {
        let file = content.file;
        self.operations[place(number)]
            .wrote
            .insert(slot, content.version);
        self.note_made(file, content.version, number);
        self.ask_to_close(slot, number, file);
        let lacking = self.replica(slot).unshipped.get(&file);
        let lacking = lacking.map_or_else(Vec::new, |(_, lacking)| lacking.clone());
        for peer in lacking {
            self.send(slot, peer, Packet::Content(content));
        }
    }

    pub(super) fn ask_to_close(&mut self, slot: ReplicaSlot, number: u64, file: ObjectId) {
        let now = self.local(slot);
        let replica = self.replica(slot);
        let close = OperationId(number | CLOSE);
        let entry = replica.births.get(&file).copied();
        let accepted = replica
            .core
            .handle_close(now, &replica.tree, close, file, entry);
        accepted.expect("a simulated run stays far below the capacity");
    }

    pub(super) fn answer_close(&mut self, slot: ReplicaSlot, number: u64) {
        if !self.may_answer_close(slot, number) {
            return;
        }
        let Operation { intent, wrote, .. } = &self.operations[place(number)];
        let (intent, wrote) = (*intent, wrote.get(&slot).copied());
        if let Intent::Write(file) = intent
            && !self.content_is_held(slot, file)
        {
            return self.park(slot, number | CLOSE);
        }
        if let Intent::Write(file) = intent
            && !self.removed.contains(&file)
        {
            let replica = self.replica(slot);
            if let Some(version) = replica.tree.version(file) {
                let directories = replica.tree.parents(file);
                let version = if self.failures {
                    let before = self.closed.get(&file).map_or(0, |closed| closed.version);
                    before.max(wrote.unwrap_or(0))
                } else {
                    version
                };
                let closed = Closed {
                    version,
                    directories,
                };
                self.closed.insert(file, closed);
                self.just_closed.insert(file);
            }
        }
        self.finish(slot, number, Outcome::Done);
    }

    fn change_tree(
        &mut self,
        slot: ReplicaSlot,
        number: u64,
        intent: &Intent,
        under: Vec<ControlName>,
    ) {
        let now = self.local(slot);
        let replica = self.replica(slot);
        let fresh = replica.fresh_object();
        let update = replica
            .tree
            .resolve(intent)
            .expect("the caller has resolved it");
        let edits = replica.tree.edits(intent, fresh);
        let mut inherited = None;
        if let Intent::Create {
            parent, directory, ..
        } = *intent
        {
            let born = if directory {
                Subject::Directory(fresh)
            } else {
                Subject::File(fresh)
            };
            inherited = replica
                .core
                .handle_created(now, &replica.tree, born, parent);
        }
        let complete = replica.apply(now, &edits);
        debug_assert!(complete, "a resolved intent can be carried out");
        let position = Position(replica.stream.len() as u64 + 1);
        replica
            .core
            .handle_update(&replica.tree, &update, &under, position);
        if let Intent::Create { .. } = intent {
            replica.births.insert(fresh, position);
        }
        if let Some(born) = &inherited {
            let born = [born.name];
            replica
                .core
                .handle_update(&replica.tree, &update, &born, position);
        }
        let kept_here =
            |edit: &Edit| matches!(edit, Edit::Lock { .. }) && !self.model.locks_are_in_every_copy;
        let travels = edits.iter().filter(|edit| !kept_here(edit));
        let shipped = Arc::new(StreamUpdate {
            under,
            edits: travels.copied().collect(),
            origin: number,
            inherited,
        });
        let replica = self.replica(slot);
        replica.done.insert(number);
        replica.stream.push(shipped.clone());
        self.forget_removed(slot, &edits);
        self.store(slot, Change::Update((slot, position.0, shipped.clone())));
        if self.model.ship_when_stable {
            self.when_stable(slot, Deferred::Ship(position.0, shipped));
        } else {
            self.ship(slot, position.0, &shipped);
        }
    }

    /// Sends an own update to all other members.
    pub(super) fn ship(&mut self, slot: ReplicaSlot, position: u64, update: &Arc<StreamUpdate>) {
        for edit in &update.edits {
            if let Edit::Version { object, version } = *edit {
                self.note_made(object, version, update.origin);
            }
        }
        for peer in self.others(slot) {
            self.send(slot, peer, Packet::Update(position, update.clone()));
        }
    }

    /// Removed objects are neither open nor new any more.
    fn forget_removed(&mut self, slot: ReplicaSlot, edits: &[Edit]) {
        for edit in edits {
            let (Edit::Leave { object, .. } | Edit::Enter { object, .. }) = *edit else {
                continue;
            };
            let directories = self.replica(slot).tree.parents(object);
            if directories.is_empty() {
                self.closed.remove(&object);
                self.removed.insert(object);
            } else if let Some(closed) = self.closed.get_mut(&object) {
                closed.directories = directories;
                self.just_closed.insert(object);
            }
        }
    }

    pub(super) fn apply_foreign(
        &mut self,
        slot: ReplicaSlot,
        origin: ReplicaSlot,
        position: u64,
        update: Arc<StreamUpdate>,
    ) {
        let now = self.local(slot);
        let replica = self.replica(slot);
        let complete = replica.apply(now, &update.edits);
        if let Some(proposal) = update.inherited.clone() {
            replica
                .core
                .handle_inherited(now, &replica.tree, origin, proposal);
        }
        replica.applied.insert(origin, position);
        replica.done.insert(update.origin);
        if !complete {
            let sight = format!(
                "replica {} cannot apply update {position} of replica {}: {:?}",
                slot.0, origin.0, update.edits
            );
            self.report("I4 (updates can be applied)", sight);
        }
        self.store(slot, Change::Update((origin, position, update)));
        let applied = Packet::Applied(Position(position));
        self.when_stable(slot, Deferred::Send(origin, applied));
    }
}
