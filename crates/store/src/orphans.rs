//! Files that exist without a name because they are open, and the home of each.
//!
//! The replica that removed a file is its home: operations of clients of all sites through their
//! opens are done there. A replica whose own clients have the file open keeps it, too. The store does not know which other
//! replicas still have a file of this home open: the owner of the store says when such a file may be removed.
//!
//! The table of orphans is in memory; the rows on disk have the same content and are changed first.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fields::Fields;
use tokio::sync::watch;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use crate::metadata::{Metadata, MetadataError, Table};
use crate::open_store::OpenStore;
use crate::rows::{encode_locks, key};

/// The maximum number of orphans removed in one batch.
const BURIED_AT_ONCE: usize = 256;

/// One file without a name.
#[derive(Clone, Copy, Debug)]
struct Orphan {
    home: ReplicaSlot,
    /// It was open here, or might be reclaimed, when it lost its name.
    was_held: bool,
    /// Its home is lost, and this copy continues without it.
    alone: bool,
}

/// The byte after the home in the row of an orphan whose home is lost.
const ALONE: u8 = 1;

/// The row of an orphan.
pub(crate) fn row_of_orphan(home: ReplicaSlot, alone: bool) -> Vec<u8> {
    let mut row = home.0.to_be_bytes().to_vec();
    row.extend(alone.then_some(ALONE));
    row
}

/// All files without a name.
pub(crate) struct Orphans {
    all: Mutex<BTreeMap<ObjectId, Orphan>>,
    /// The number of orphans, for a fast check before every operation.
    count: AtomicUsize,
    /// Counts events that may change which orphans clients of this replica have open.
    version: AtomicU64,
    /// Counts every change.
    changes: watch::Sender<u64>,
}

impl Orphans {
    pub(crate) fn load(
        metadata: &Metadata,
        own: ReplicaSlot,
    ) -> std::result::Result<Orphans, MetadataError> {
        let mut all = BTreeMap::new();
        for row in metadata.view().scan(Table::Orphans, &[], &[]) {
            let row = row?;
            let Ok(id) = key::parse_object(row.key()) else {
                continue;
            };
            // Rows of an older program contain no home.
            let mut fields = Fields::new(row.value());
            let home = fields.u16().map_or(own, ReplicaSlot);
            let orphan = Orphan {
                home,
                was_held: true,
                alone: fields.u8() == Ok(ALONE),
            };
            all.insert(id, orphan);
        }
        Ok(Orphans {
            count: AtomicUsize::new(all.len()),
            all: Mutex::new(all),
            version: AtomicU64::new(1),
            changes: watch::Sender::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectId, Orphan>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change; `change` returns whether it may concern opens of clients here.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<ObjectId, Orphan>) -> bool) {
        let mut all = self.lock();
        let concerns_opens = change(&mut all);
        self.count.store(all.len(), Ordering::Release);
        if concerns_opens {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
        drop(all);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Adds a file that has lost its last name.
    pub(crate) fn add(&self, id: ObjectId, home: ReplicaSlot, was_held: bool) {
        let orphan = Orphan {
            home,
            was_held,
            alone: false,
        };
        self.change(|all| {
            all.insert(id, orphan);
            was_held
        });
    }

    /// Notes that this copy continues without the home.
    fn go_on_alone(&self, id: ObjectId) {
        self.change(|all| {
            if let Some(orphan) = all.get_mut(&id) {
                orphan.alone = true;
            }
            false
        });
    }

    pub(crate) fn forget(&self, id: ObjectId) {
        self.change(|all| all.remove(&id).is_some_and(|orphan| orphan.was_held));
    }

    pub(crate) fn clear(&self) {
        self.change(|all| {
            all.clear();
            true
        });
    }

    /// Notes that opens of orphans have changed.
    pub(crate) fn note_opens(&self) {
        self.change(|_| true);
    }

    pub(crate) fn home(&self, id: ObjectId) -> Option<ReplicaSlot> {
        match self.len() {
            0 => None,
            _ => self.lock().get(&id).map(|orphan| orphan.home),
        }
    }

    pub(crate) fn is_alone(&self, id: ObjectId) -> bool {
        match self.len() {
            0 => false,
            _ => self.lock().get(&id).is_some_and(|orphan| orphan.alone),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(crate) fn all(&self) -> Vec<(ObjectId, ReplicaSlot)> {
        let all = self.lock();
        all.iter().map(|(id, orphan)| (*id, orphan.home)).collect()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl OpenStore {
    /// Whether clients of other replicas may have a file open that is removed here.
    pub(crate) fn others_may_have_open(&self) -> bool {
        (self.keeps_removed.get())
            .is_some_and(|keeps_removed| keeps_removed.load(Ordering::Acquire))
    }

    /// Removes files without a name that were closed or not reclaimed, unless other replicas may have them open.
    pub(crate) async fn let_go(&self, ids: &[ObjectId]) -> Result<()> {
        let elsewhere = self.others_may_have_open();
        let undecided = |id: &&ObjectId| elsewhere && self.orphans.home(**id) == Some(self.slot);
        let gone: Vec<ObjectId> = (ids.iter()).filter(|id| !undecided(id)).copied().collect();
        self.bury(&gone).await?;
        self.orphans.note_opens();
        Ok(())
    }

    /// Removes those of these files that are not open here and that no client may reclaim here. No other replica has
    /// them open.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn bury(&self, ids: &[ObjectId]) -> Result<()> {
        for some in ids.chunks(BURIED_AT_ONCE) {
            self.bury_some(some).await?;
        }
        Ok(())
    }

    async fn bury_some(&self, ids: &[ObjectId]) -> Result<()> {
        let mut mutation = self.begin_maintenance().await?;
        if self.is_reclaiming() {
            return Ok(());
        }
        let mut shares = self.shares();
        let mut gone = Vec::new();
        for id in ids.iter().filter(|id| !shares.is_open(**id)).copied() {
            match mutation.object(id) {
                Ok(row) if row.links > 0 => continue,
                Ok(_) => self.discard(&mut mutation, id)?,
                // Another task removed it first, or its rows never came here.
                Err(Error::Stale) => {}
                Err(error) => return Err(error),
            }
            mutation.unmark(Table::Orphans, id);
            mutation.then(move |store, _| store.orphans.forget(id));
            gone.push(id);
        }
        mutation.commit_local()?;
        gone.into_iter().for_each(|id| shares.forget(id));
        Ok(())
    }

    /// From here on, also after a restart, this copy of a removed file is the authoritative one: its home is lost. Only locks of
    /// clients that `is_here` accepts stay: other clients locked at other replicas and will not unlock here.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn go_on_alone(&self, file: ObjectId, is_here: impl Fn(&[u8]) -> bool) -> Result<()> {
        let mut mutation = self.begin_maintenance().await?;
        let Some(home) = self.orphans.home(file) else {
            return Ok(());
        };
        // The table's lock is not held while `is_here` is called.
        let mut held = self.locks().of(file).to_vec();
        held.retain(|held| is_here(&held.owner.client));
        let row = row_of_orphan(home, true);
        mutation.put_local(Table::Orphans, &key::object(file), &row);
        match encode_locks(&held).filter(|_| !held.is_empty()) {
            Some(row) => mutation.put_local(Table::Locks, &key::object(file), &row),
            None => mutation.remove_local(Table::Locks, &key::object(file)),
        }
        mutation.then(move |store, _| {
            store.orphans.go_on_alone(file);
            if store.locks().replace(file, held) {
                store.tell_lock_change(file);
            }
        });
        mutation.commit_local().map(|_| ())
    }

    /// The files without a name that clients of this replica have open or may reclaim, no matter which replica removed them.
    /// Their [`crate::OpenStore::orphans_version`] is at least the returned number.
    #[must_use]
    pub fn orphans_held(&self) -> (u64, Vec<ObjectId>) {
        // Read the version first, so that the list is never older than its number.
        let version = self.orphans.version();
        let reclaiming = self.is_reclaiming();
        let all = self.orphans.all();
        let shares = self.shares();
        let held = all.into_iter().map(|(id, _)| id);
        let held = held
            .filter(|id| reclaiming || shares.is_open(*id))
            .collect();
        (version, held)
    }
}
