//! One operation's changes, put together under the writer's lock and committed as one batch.
//!
//! The holder of a [`Mutation`] is alone in changing rows: what it checks stays true until its batch is
//! committed. It never waits for anything while it holds that lock, stable storage included; only
//! an exhausted reservation of numbers makes it do so. Dropping it without [`Mutation::commit`]
//! changes nothing, and neither does a commit that the commit hook refuses: what has to happen in memory
//! along with the batch is handed to [`Mutation::then`].

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

/// The key of the row that is there once other replicas know of changes made here.
pub(crate) const SHARED_KEY: &[u8] = b"shared";

/// The key of the row that holds the latest time of a change, if that was ahead of the own clock.
pub(crate) const AHEAD_KEY: &[u8] = b"ahead";

/// The row of a mark that another primary's changes have set; of most others it is empty.
pub(crate) const FOREIGN_MARK: &[u8] = &[1];
/// The mark of a file whose data file, with its name, is on stable storage: where it is missing after a crash, the disk has lost it.
pub(crate) const STORED_MARK: &[u8] = &[2];

/// What only the one who changes rows may touch.
pub(crate) struct Writer {
    pub(crate) counters: Counters,
    /// The ticket of the last batch.
    pub(crate) committed: Ticket,
    /// Objects in the tree.
    pub(crate) objects: u64,
}

/// What about an object has changed, and so which of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Data or entries.
    Content,
    /// Attributes or names only.
    Attributes,
}

/// Something to do once the batch of a ticket is visible, before anybody else can change rows.
type Effect = Box<dyn FnOnce(&OpenStore, Ticket) + Send>;

struct LoadedObject {
    id: ObjectId,
    /// It had no name before this operation: only this copy still has it.
    orphan: bool,
    /// `None` when the object does not exist, or is being removed.
    row: Option<ObjectRow>,
    changed: bool,
    /// The version around this operation, once it has got a new one.
    versions: Option<DirectoryChange>,
}

struct LoadedEntries {
    directory: ObjectId,
    hash: NameHash,
    row: EntryRow,
    changed: bool,
}

/// Changes that happen together or not at all.
pub(crate) struct Mutation<'s> {
    store: &'s OpenStore,
    writer: MutexGuard<'s, Writer>,
    batch: Batch<'s>,
    /// What replicas have to hear of; `None` where there are no others.
    record: Option<Draft>,
    /// Who is asked before that is committed.
    hook: Option<Arc<dyn CommitHook>>,
    /// Who makes the changes.
    home: ReplicaSlot,
    /// The file whose data changes.
    data_of: Option<ObjectId>,
    effects: Vec<Effect>,
    /// What looks different afterwards, if somebody listens.
    changes: Vec<ObjectId>,
    objects: Vec<LoadedObject>,
    entries: Vec<LoadedEntries>,
    /// Objects made, less those removed.
    made: i64,
    now: Timestamp,
    /// Counts until the batch is committed.
    _admission: Option<Admission<'s>>,
}

impl OpenStore {
    /// Admits an operation that takes space on the disk, and in memory: [`Error::NoSpace`] without the one, [`Error::Delay`] while
    /// memory is not written out for want of descriptors, or of files below.
    pub(crate) fn admit(&self, demand: Demand) -> Result<Admission<'_>> {
        match self.metadata.is_stuck() {
            true => Err(Error::Delay),
            false => self.headroom.admit(demand),
        }
    }

    /// Starts an operation that changes rows, once nobody else does and the disk has space for it.
    pub(crate) async fn begin(&self, demand: Demand) -> Result<Mutation<'_>> {
        self.health.check()?;
        let admission = self.admit(demand)?;
        let writer = self.writer.lock().await;
        let mut mutation = Mutation::start(self, writer)?;
        mutation._admission = Some(admission);
        Ok(mutation)
    }

    /// The same for what has been admitted already, or is needed to get along on a full disk.
    pub(crate) async fn begin_maintenance(&self) -> Result<Mutation<'_>> {
        self.health.check()?;
        let writer = self.writer.lock().await;
        Mutation::start(self, writer)
    }

    /// The same for threads of the store's own.
    pub(crate) fn begin_blocking(&self) -> Result<Mutation<'_>> {
        self.health.check()?;
        let writer = wait(self.writer.lock(), || self.is_closing());
        let writer = writer.ok_or_else(|| Error::Io("the store is being closed".into()))?;
        Mutation::start(self, writer)
    }

    /// The same for what is not worth waiting for: `None` when somebody else is changing rows.
    pub(crate) fn begin_if_idle(&self) -> Result<Option<Mutation<'_>>> {
        self.health.check()?;
        let writer = self.writer.try_lock();
        writer
            .ok()
            .map(|writer| Mutation::start(self, writer))
            .transpose()
    }
}

/// For a caller that may not be told that a disk is full: it is asked to try again.
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

    /// Has this one asked before the changes are committed.
    pub(crate) fn asking(mut self, hook: Option<Arc<dyn CommitHook>>) -> Mutation<'s> {
        self.hook = hook;
        self
    }

    /// The store that is changed.
    pub(crate) fn store(&self) -> &OpenStore {
        self.store
    }

    /// The time that this operation gives to what is new. What was there before may get a later one.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The time that this operation gives to an object that was there before.
    pub(crate) fn time_of(&self, before: &ObjectRow) -> Timestamp {
        later_than(before.changed, self.now)
    }

    /// Has something done once the batch is visible, before anybody else can change rows. It is not done
    /// when the change is refused or fails.
    pub(crate) fn then(&mut self, effect: impl FnOnce(&OpenStore, Ticket) + Send + 'static) {
        self.effects.push(Box::new(effect));
    }

    /// How an object looks to the commit hook; to be asked before anything about it is changed.
    pub(crate) fn touched(&mut self, id: ObjectId) -> Result<Touched> {
        Ok(self.object(id)?.touched(id))
    }

    /// The data of this file changes, so other replicas will not have all of it.
    pub(crate) fn change_data(&mut self, id: ObjectId) {
        self.data_of = Some(id);
    }

    /// A number that no other batch has while this one is put together. When a reservation of numbers has to
    /// be written in between, the ticket of this one is a later one.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.writer.committed.0 + 1)
    }

    /// An object, or [`Error::Stale`].
    pub(crate) fn object(&mut self, id: ObjectId) -> Result<&ObjectRow> {
        let at = self.load_object(id)?;
        self.objects[at].row.as_ref().ok_or(Error::Stale)
    }

    /// A copy of an object that is only looked at in passing.
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

    /// An object that this operation makes, with its first version.
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

    /// Gives an object a new version and the times that go with it; once per operation, however often
    /// it is touched. Returns the version around the operation.
    pub(crate) fn touch(&mut self, id: ObjectId, touch: Touch) -> Result<DirectoryChange> {
        let at = self.load_object(id)?;
        let row = self.objects[at].row.as_ref().ok_or(Error::Stale)?;
        let (before, stands, time) = (row.change, row.changed, self.time_of(row));
        let (versions, now) = match self.objects[at].versions {
            // Touched by this operation before, or made by it.
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

    /// The same, to change.
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

    /// Writes a row that replicas keep too.
    pub(crate) fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.batch.put(table, key, value);
        if let Some(record) = &mut self.record {
            record.add(table, key, Some(value));
        }
    }

    /// Removes a row that replicas keep too.
    pub(crate) fn remove(&mut self, table: Table, key: &[u8]) {
        self.batch.remove(table, key);
        if let Some(record) = &mut self.record {
            record.add(table, key, None);
        }
    }

    /// Writes a row that belongs to an object, and that replicas keep as long as they have the object.
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

    /// Writes or removes a row that says what clients hold of an object. Without other replicas it is not kept: after a restart the
    /// clients say it again. Of an object without a name no other replica hears, and its home keeps what their clients hold.
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

    /// Notes something about an object that only this copy needs to know.
    pub(crate) fn mark(&mut self, table: Table, id: ObjectId) {
        self.batch.put(table, &key::object(id), b"");
    }

    pub(crate) fn unmark(&mut self, table: Table, id: ObjectId) {
        self.batch.remove(table, &key::object(id));
    }

    /// A change of an object that is no new version and that no replica needs to hear of.
    pub(crate) fn put_quietly(&mut self, id: ObjectId, row: &ObjectRow) {
        self.note_change(id);
        self.put_time_of_read(id, row);
    }

    /// The same for a time of last read, of which nobody hears.
    pub(crate) fn put_time_of_read(&mut self, id: ObjectId, row: &ObjectRow) {
        self.batch
            .put(Table::Objects, &key::object(id), &row.encode());
    }

    /// An object looks different afterwards.
    fn note_change(&mut self, id: ObjectId) {
        if self.store.listener.get().is_some() && !self.changes.contains(&id) {
            self.changes.push(id);
        }
    }

    /// Writes a row that only this copy keeps.
    pub(crate) fn put_local(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.batch.put(table, key, value);
    }

    /// The same mark, for what goes on because of another primary.
    pub(crate) fn mark_foreign(&mut self, table: Table, id: ObjectId) {
        self.batch.put(table, &key::object(id), FOREIGN_MARK);
    }

    /// The mark of a dirty file that is to be written here; `stored` if its data file is there for good.
    pub(crate) fn mark_dirty(&mut self, id: ObjectId, stored: bool) {
        let mark: &[u8] = if stored { STORED_MARK } else { b"" };
        self.batch.put(Table::Dirty, &key::object(id), mark);
    }

    /// Removes a row that only this copy keeps, whatever its key looks like.
    pub(crate) fn remove_local(&mut self, table: Table, key: &[u8]) {
        self.batch.remove(table, key);
    }

    /// Says that the changes are those of another primary, and no others need to hear of them from here.
    pub(crate) fn follow(&mut self, primary: ReplicaSlot) {
        self.record = None;
        self.home = primary;
    }

    /// Who makes the changes, and so keeps what is removed for those who have it open.
    pub(crate) fn home(&self) -> ReplicaSlot {
        self.home
    }

    /// Whether others hear of what is removed, and may have it open.
    pub(crate) fn removes_for_others(&self) -> bool {
        self.record.is_some() && self.store.others_may_have_open()
    }

    /// Takes over an object as another primary has it.
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

    /// This is the latest time that an object gets, here or at another replica. What is changed here from now on gets a later one, also when the clock is
    /// set back, and after a restart if the clock was behind already.
    fn note_time(&mut self, time: Timestamp) {
        if time <= self.store.latest_change() {
            return;
        }
        if time > self.store.clock.now() {
            self.put_local(Table::System, AHEAD_KEY, &encode_time(time));
        }
        self.then(move |store, _| store.raise_latest_change(time));
    }

    /// Corrects the count of objects.
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
