//! The changes of one operation, collected under the writer's lock and committed as one batch.
//!
//! Only the holder of a [`Mutation`] changes rows: what it checks stays true until its batch is
//! committed. It waits for nothing while it holds that lock, not even for stable storage; the only exception is
//! an exhausted reservation of numbers. Dropping it without [`Mutation::commit`]
//! changes nothing, and neither does a commit that the commit hook refuses. Changes in memory that belong to
//! the batch are passed to [`Mutation::then`].

mod commit;
mod numbers;

use std::sync::Arc;

use tokio::sync::MutexGuard;
use vfs::{
    ChangeAttribute, DirectoryChange, Error, Name, ObjectId, ReplicaSlot, Result, Timestamp,
};

use crate::clock::later_than;
use crate::commit_hook::{CommitHook, Touched};
use crate::committer::Ticket;
use crate::counters::{Counters, Sequence};
use crate::metadata::{Batch, Table};
use crate::open_store::OpenStore;
use crate::recording::Draft;
use crate::rows::{EntryRow, NameHash, ObjectRow, encode_time, key};
use crate::space::{Admission, Demand};
use crate::waiting::wait;

/// The key of the row that reserves numbers.
pub(crate) const RESERVED_KEY: &[u8] = b"reserved";

/// The key of the row that counts the objects.
pub(crate) const OBJECTS_KEY: &[u8] = b"objects";

/// The key of the row that exists once other replicas know of changes made here.
pub(crate) const SHARED_KEY: &[u8] = b"shared";

/// The key of the row with the latest time of a change, if that was ahead of the local clock.
pub(crate) const AHEAD_KEY: &[u8] = b"ahead";

/// The value of a mark that changes of another primary have set; most other marks are empty.
pub(crate) const FOREIGN_MARK: &[u8] = &[1];
/// The mark of a file whose data file is stable, name included: if it is missing after a crash, the disk has lost it.
pub(crate) const STORED_MARK: &[u8] = &[2];

/// State that only the holder of the writer's lock may use.
pub(crate) struct Writer {
    pub(crate) counters: Counters,
    /// The ticket of the last batch.
    pub(crate) committed: Ticket,
    /// The number of objects in the tree.
    pub(crate) objects: u64,
}

/// What has changed about an object; this decides which of its times change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Data or entries.
    Content,
    /// Attributes or names only.
    Attributes,
}

/// An effect that runs once the batch of a ticket is visible, before another task can change rows.
type Effect = Box<dyn FnOnce(&OpenStore, Ticket) + Send>;

struct LoadedObject {
    id: ObjectId,
    /// It had no name before this operation: only this copy still keeps it.
    orphan: bool,
    /// `None` when the object does not exist, or is being removed.
    row: Option<ObjectRow>,
    changed: bool,
    /// The versions before and after this operation, once the object has a new one.
    versions: Option<DirectoryChange>,
}

struct LoadedEntries {
    directory: ObjectId,
    hash: NameHash,
    row: EntryRow,
    changed: bool,
}

/// Changes that are committed together or not at all.
pub(crate) struct Mutation<'s> {
    store: &'s OpenStore,
    writer: MutexGuard<'s, Writer>,
    batch: Batch<'s>,
    /// The changes that replicas have to receive; `None` without other replicas.
    record: Option<Draft>,
    /// The hook to call before the commit.
    hook: Option<Arc<dyn CommitHook>>,
    /// The replica that makes the changes.
    home: ReplicaSlot,
    /// The file whose data the operation changes.
    data_of: Option<ObjectId>,
    effects: Vec<Effect>,
    /// The changed objects, if there is a listener.
    changes: Vec<ObjectId>,
    objects: Vec<LoadedObject>,
    entries: Vec<LoadedEntries>,
    /// Objects created minus objects removed.
    made: i64,
    now: Timestamp,
    /// Reserves space until the batch is committed.
    _admission: Option<Admission<'s>>,
}

impl OpenStore {
    /// Admits an operation that needs space: [`Error::NoSpace`] if the disk is full, [`Error::Delay`] while changes cannot be written
    /// out of memory because descriptors or files below are lacking.
    pub(crate) fn admit(&self, demand: Demand) -> Result<Admission<'_>> {
        match self.metadata.is_stuck() {
            true => Err(Error::Delay),
            false => self.headroom.admit(demand),
        }
    }

    /// Starts an operation that changes rows, once no other task does and if the disk has space for it.
    pub(crate) async fn begin(&self, demand: Demand) -> Result<Mutation<'_>> {
        self.health.check()?;
        let admission = self.admit(demand)?;
        let writer = self.writer.lock().await;
        let mut mutation = Mutation::start(self, writer)?;
        mutation._admission = Some(admission);
        Ok(mutation)
    }

    /// The same for operations that were admitted already, or that are needed to keep a full disk working.
    pub(crate) async fn begin_maintenance(&self) -> Result<Mutation<'_>> {
        self.health.check()?;
        let writer = self.writer.lock().await;
        Mutation::start(self, writer)
    }

    /// The same for the store's own threads.
    pub(crate) fn begin_blocking(&self) -> Result<Mutation<'_>> {
        self.health.check()?;
        let writer = wait(self.writer.lock(), || self.is_closing());
        let writer = writer.ok_or_else(|| Error::Io("the store is being closed".into()))?;
        Mutation::start(self, writer)
    }

    /// The same without waiting: `None` when another task is changing rows.
    pub(crate) fn begin_if_idle(&self) -> Result<Option<Mutation<'_>>> {
        self.health.check()?;
        let writer = self.writer.try_lock();
        writer
            .ok()
            .map(|writer| Mutation::start(self, writer))
            .transpose()
    }
}

/// Turns "no space" into "try again", for a caller that must not get the former.
pub(crate) fn wait_for_space(error: Error) -> Error {
    match error {
        Error::NoSpace => Error::Delay,
        error => error,
    }
}

impl<'s> Mutation<'s> {
    fn start(store: &'s OpenStore, mut writer: MutexGuard<'s, Writer>) -> Result<Mutation<'s>> {
        store.health.check()?;
        writer.counters.stable(store.commits.stable());
        Ok(Mutation {
            store,
            writer,
            batch: store.metadata.batch(),
            record: store.is_replicated().then(Draft::default),
            hook: None,
            home: store.slot,
            data_of: None,
            effects: Vec::new(),
            changes: Vec::new(),
            objects: Vec::new(),
            entries: Vec::new(),
            made: 0,
            now: later_than(store.latest_change(), store.clock.now()),
            _admission: None,
        })
    }

    /// Sets the hook to call before the changes are committed.
    pub(crate) fn asking(mut self, hook: Option<Arc<dyn CommitHook>>) -> Mutation<'s> {
        self.hook = hook;
        self
    }

    /// The store that is changed.
    pub(crate) fn store(&self) -> &OpenStore {
        self.store
    }

    /// The time that this operation gives to new objects. Existing objects may get a later one.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The time that this operation gives to an existing object.
    pub(crate) fn time_of(&self, before: &ObjectRow) -> Timestamp {
        later_than(before.changed, self.now)
    }

    /// Registers an effect that runs once the batch is visible, before another task can change rows. It does not run
    /// when the change is refused or fails.
    pub(crate) fn then(&mut self, effect: impl FnOnce(&OpenStore, Ticket) + Send + 'static) {
        self.effects.push(Box::new(effect));
    }

    /// The object as the commit hook sees it; call this before any change of the object.
    pub(crate) fn touched(&mut self, id: ObjectId) -> Result<Touched> {
        Ok(self.object(id)?.touched(id))
    }

    /// Notes that the data of this file changes, so other replicas will not have all of it.
    pub(crate) fn change_data(&mut self, id: ObjectId) {
        self.data_of = Some(id);
    }

    /// A number that no other batch has while this one is being built. If a reservation of numbers has to
    /// be written in between, this batch gets a later ticket.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.writer.committed.0 + 1)
    }

    /// An object, or [`Error::Stale`].
    pub(crate) fn object(&mut self, id: ObjectId) -> Result<&ObjectRow> {
        let at = self.load_object(id)?;
        self.objects[at].row.as_ref().ok_or(Error::Stale)
    }

    /// A copy of an object, without keeping it loaded.
    pub(crate) fn peek(&self, id: ObjectId) -> Result<ObjectRow> {
        match self.objects.iter().find(|loaded| loaded.id == id) {
            Some(loaded) => loaded.row.clone().ok_or(Error::Stale),
            None => self.store.object(id),
        }
    }

    /// An object to change, or [`Error::Stale`].
    pub(crate) fn object_mut(&mut self, id: ObjectId) -> Result<&mut ObjectRow> {
        let at = self.load_object(id)?;
        let loaded = &mut self.objects[at];
        loaded.changed = true;
        loaded.row.as_mut().ok_or(Error::Stale)
    }

    /// Adds an object that this operation creates, with its first version.
    pub(crate) fn insert_object(&mut self, id: ObjectId, mut row: ObjectRow) -> Result<()> {
        row.change = self.next_change(ChangeAttribute(0))?;
        let versions = Some(DirectoryChange {
            before: ChangeAttribute(0),
            after: row.change,
        });
        self.objects.push(LoadedObject {
            id,
            orphan: false,
            row: Some(row),
            changed: true,
            versions,
        });
        self.made += 1;
        Ok(())
    }

    pub(crate) fn remove_object(&mut self, id: ObjectId) -> Result<()> {
        let at = self.load_object(id)?;
        self.objects[at].row = None;
        self.objects[at].changed = true;
        self.made -= 1;
        Ok(())
    }

    /// Gives an object a new version and the matching times, once per operation, however often
    /// it is touched. Returns the versions before and after the operation.
    pub(crate) fn touch(&mut self, id: ObjectId, touch: Touch) -> Result<DirectoryChange> {
        let at = self.load_object(id)?;
        let row = self.objects[at].row.as_ref().ok_or(Error::Stale)?;
        let (before, stands, time) = (row.change, row.changed, self.time_of(row));
        let (versions, now) = match self.objects[at].versions {
            // This operation touched or created it before.
            Some(versions) => (versions, stands),
            None => {
                let after = self.next_change(before)?;
                (DirectoryChange { before, after }, time)
            }
        };
        let loaded = &mut self.objects[at];
        loaded.versions = Some(versions);
        loaded.changed = true;
        if let Some(row) = &mut loaded.row {
            row.change = versions.after;
            row.changed = now;
            if touch == Touch::Content {
                row.modified = now;
            }
        }
        Ok(versions)
    }

    /// The names with the same hash as `name`.
    pub(crate) fn entries(&mut self, directory: ObjectId, name: &Name) -> Result<&EntryRow> {
        let at = self.load_entries(directory, name)?;
        Ok(&self.entries[at].row)
    }

    /// The same, for changes.
    pub(crate) fn entries_mut(
        &mut self,
        directory: ObjectId,
        name: &Name,
    ) -> Result<(NameHash, &mut EntryRow)> {
        let at = self.load_entries(directory, name)?;
        let loaded = &mut self.entries[at];
        loaded.changed = true;
        Ok((loaded.hash, &mut loaded.row))
    }

    /// Writes a replicated row.
    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.batch.put(table, key, value);
        if let Some(record) = &mut self.record {
            record.add(table, key, Some(value));
        }
    }

    /// Removes a replicated row.
    pub(crate) fn remove(&mut self, table: Table, key: &[u8]) {
        self.batch.remove(table, key);
        if let Some(record) = &mut self.record {
            record.add(table, key, None);
        }
    }

    /// Writes a row of an object, replicated as long as other replicas have the object.
    pub(crate) fn put_of(
        &mut self,
        id: ObjectId,
        table: Table,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let at = self.load_object(id)?;
        match self.objects[at].orphan {
            true => self.put_local(table, key, value),
            false => self.put(table, key, value),
        }
        Ok(())
    }

    /// Removes such a row.
    pub(crate) fn remove_of(&mut self, id: ObjectId, table: Table, key: &[u8]) -> Result<()> {
        let at = self.load_object(id)?;
        match self.objects[at].orphan {
            true => self.remove_local(table, key),
            false => self.remove(table, key),
        }
        Ok(())
    }

    /// Writes or removes a row with what clients hold of an object. Without other replicas nothing is written: clients reclaim after a
    /// restart. Other replicas get no rows of an object without a name; its home keeps what their clients hold.
    pub(crate) fn tell_of(
        &mut self,
        id: ObjectId,
        table: Table,
        value: Option<&[u8]>,
    ) -> Result<()> {
        let at = self.load_object(id)?;
        let Some(record) = &mut self.record else {
            return Ok(());
        };
        if !self.objects[at].orphan {
            record.add(table, &key::object(id), value);
        }
        match value {
            Some(value) => self.batch.put(table, &key::object(id), value),
            None => self.batch.remove(table, &key::object(id)),
        }
        Ok(())
    }

    /// Marks an object for this copy only.
    pub(crate) fn mark(&mut self, table: Table, id: ObjectId) {
        self.batch.put(table, &key::object(id), b"");
    }

    pub(crate) fn unmark(&mut self, table: Table, id: ObjectId) {
        self.batch.remove(table, &key::object(id));
    }

    /// Writes an object without a new version; replicas need not receive this change.
    pub(crate) fn put_quietly(&mut self, id: ObjectId, row: &ObjectRow) {
        self.note_change(id);
        self.put_time_of_read(id, row);
    }

    /// The same for an access time, which is not reported to listeners either.
    pub(crate) fn put_time_of_read(&mut self, id: ObjectId, row: &ObjectRow) {
        self.batch
            .put(Table::Objects, &key::object(id), &row.encode());
    }

    /// Notes for the listener that an object changes.
    fn note_change(&mut self, id: ObjectId) {
        if self.store.listener.get().is_some() && !self.changes.contains(&id) {
            self.changes.push(id);
        }
    }

    /// Writes a row that only this copy keeps.
    pub(crate) fn put_local(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.batch.put(table, key, value);
    }

    /// The same mark, set because of another primary.
    pub(crate) fn mark_foreign(&mut self, table: Table, id: ObjectId) {
        self.batch.put(table, &key::object(id), FOREIGN_MARK);
    }

    /// Sets the mark of a dirty file for a local write; `stored` if its data file exists permanently.
    pub(crate) fn mark_dirty(&mut self, id: ObjectId, stored: bool) {
        let mark: &[u8] = if stored { STORED_MARK } else { b"" };
        self.batch.put(Table::Dirty, &key::object(id), mark);
    }

    /// Removes a row that only this copy keeps.
    pub(crate) fn remove_local(&mut self, table: Table, key: &[u8]) {
        self.batch.remove(table, key);
    }

    /// The changes come from another primary, and are not recorded for other replicas here.
    pub(crate) fn follow(&mut self, primary: ReplicaSlot) {
        self.record = None;
        self.home = primary;
    }

    /// The replica that makes the changes. It keeps removed objects for clients that have them open.
    pub(crate) fn home(&self) -> ReplicaSlot {
        self.home
    }

    /// Whether other replicas receive removals, and may have the objects open.
    pub(crate) fn removes_for_others(&self) -> bool {
        self.record.is_some() && self.store.others_may_have_open()
    }

    /// Replaces an object by its state at another primary.
    pub(crate) fn replace_object(&mut self, id: ObjectId, row: ObjectRow) -> Result<()> {
        self.raise(Sequence::Changes, row.change.0);
        let counter = id.as_u64() & ObjectId::MAX_COUNTER;
        if ObjectId::new(self.store.slot, counter) == Some(id) {
            self.raise(Sequence::Objects, id.as_u64());
        }
        let at = self.load_object(id)?;
        let loaded = &mut self.objects[at];
        self.made += i64::from(loaded.row.is_none());
        loaded.row = Some(row);
        loaded.changed = true;
        Ok(())
    }

    /// Notes the latest time that an object gets, here or at another replica. Later changes here get a later time, even if the clock is set
    /// back, and also after a restart if the clock was behind already.
    fn note_time(&mut self, time: Timestamp) {
        if time <= self.store.latest_change() {
            return;
        }
        if time > self.store.clock.now() {
            self.put_local(Table::System, AHEAD_KEY, &encode_time(time));
        }
        self.then(move |store, _| store.raise_latest_change(time));
    }

    /// Replaces the count of objects.
    pub(crate) fn set_object_count(&mut self, objects: u64) {
        self.writer.objects = objects;
        self.batch
            .put(Table::System, OBJECTS_KEY, &key::number(objects));
    }

    /// An identifier for a new object.
    pub(crate) fn new_id(&mut self) -> Result<ObjectId> {
        let counter = self.take(Sequence::Objects)?;
        ObjectId::new(self.store.slot, counter).ok_or(Error::NoSpace)
    }

    fn load_object(&mut self, id: ObjectId) -> Result<usize> {
        if let Some(at) = self.objects.iter().position(|loaded| loaded.id == id) {
            return Ok(at);
        }
        let row = self.store.metadata.row(Table::Objects, &key::object(id))?;
        let row = row.map(|row| ObjectRow::decode(&row)).transpose()?;
        self.objects.push(LoadedObject {
            id,
            orphan: row.as_ref().is_some_and(|row| row.links == 0),
            row,
            changed: false,
            versions: None,
        });
        Ok(self.objects.len() - 1)
    }

    fn load_entries(&mut self, directory: ObjectId, name: &Name) -> Result<usize> {
        let hash = self.store.hash(name.as_bytes());
        let known = |loaded: &LoadedEntries| loaded.directory == directory && loaded.hash == hash;
        if let Some(at) = self.entries.iter().position(known) {
            return Ok(at);
        }
        let row = self
            .store
            .metadata
            .row(Table::Entries, &key::entry(directory, hash))?;
        let row = row
            .map(|row| EntryRow::decode(&row))
            .transpose()?
            .unwrap_or_default();
        self.entries.push(LoadedEntries {
            directory,
            hash,
            row,
            changed: false,
        });
        Ok(self.entries.len() - 1)
    }
}
