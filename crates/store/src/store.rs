//! A store: its parts, how it is made and opened, and how it ends.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use vfs::{ChangeAttribute, Error, FsId, ObjectId, Properties, ReplicaSlot, WriteVerifier};

use crate::clock::Clock;
use crate::codec::Fields;
use crate::committer::{Commits, Health, Ticket};
use crate::counters::{Counters, Reserved};
use crate::data::{DataFiles, DirtyFiles, Guards, MAX_FILE_BYTES};
use crate::error::StoreError;
use crate::layout::{Identity, Layout};
use crate::locks::Locks;
use crate::metadata::{Metadata, Table};
use crate::mutation::{OBJECTS_KEY, RESERVED_KEY, Writer};
use crate::options::{CommitMode, NewStore, StoreOptions, TreeIdentity};
use crate::recording::UpdateRecord;
use crate::rows::{Content, DirectoryContent, NameHash, ObjectRow, key};
use crate::shares::Shares;
use crate::space::Headroom;
use crate::statistics::{Figures, StoreStatistics};
use crate::upkeep::{self, Bell};

/// The key of the row that counts how often the store was opened.
const OPENED_KEY: &[u8] = b"opened";

const LEAST_CACHE_BYTES: u64 = 1 << 20;
const LEAST_OPEN_FILES: usize = 16;

/// A copy of a tree in a local directory.
///
/// All work happens through [`vfs::FileSystem`], which has to be called within a tokio runtime.
/// Dropping the store stops its threads and makes rows stable; data that no client committed is then
/// treated as after a crash, so call [`vfs::FileSystem::sync`] before a graceful stop.
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

/// The parts of a store, shared by operations and the store's own threads.
pub(crate) struct Inner {
    pub(crate) properties: Properties,
    pub(crate) slot: ReplicaSlot,
    pub(crate) verifier: WriteVerifier,
    tree: TreeIdentity,
    commit: CommitMode,
    pub(crate) recording: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) metadata: Metadata,
    pub(crate) writer: tokio::sync::Mutex<Writer>,
    pub(crate) commits: Commits,
    pub(crate) health: Health,
    pub(crate) headroom: Headroom,
    pub(crate) files: DataFiles,
    pub(crate) guards: Arc<Guards>,
    pub(crate) dirty: DirtyFiles,
    shares: Mutex<Shares>,
    locks: Mutex<Locks>,
    /// True until clients have had time to reclaim their opens.
    pub(crate) reclaiming: AtomicBool,
    pub(crate) orphans: AtomicU64,
    pub(crate) objects: AtomicU64,
    pub(crate) removals: Bell,
    pub(crate) tidying: Bell,
    pub(crate) statistics: Figures,
}

impl Store {
    /// Makes a new store in a missing or empty directory, and opens it.
    ///
    /// # Errors
    /// [`StoreError`] says what is in the way.
    pub fn create(options: &StoreOptions, new: &NewStore) -> Result<Store, StoreError> {
        check_options(options)?;
        if new.slot == ReplicaSlot(0) {
            return Err(StoreError::Option(
                "replica slot 0 belongs to no replica; choose another",
            ));
        }
        let layout = Layout::begin_creation(&options.directory)?;
        let tree = match new.tree {
            Some(tree) => tree,
            None => random_tree()?,
        };
        write_first_rows(&layout, options, new)?;
        layout.finish_creation(&Identity {
            tree,
            slot: new.slot,
        })?;
        drop(layout);
        Store::open(options)
    }

    /// Opens a store and puts right what a crash may have left.
    ///
    /// # Errors
    /// [`StoreError`] says what is wrong and what to do.
    pub fn open(options: &StoreOptions) -> Result<Store, StoreError> {
        check_options(options)?;
        let (layout, identity) = Layout::open(&options.directory)?;
        let inner = Arc::new(Inner::load(options, layout, identity)?);
        let failed = |error: Error| StoreError::Metadata {
            path: options.directory.clone(),
            what: error.to_string(),
        };
        inner.reserve_numbers().map_err(failed)?;
        inner.recover_dirty_files().map_err(failed)?;
        let threads = start_threads(&inner)
            .map_err(|error| StoreError::io("start threads for", &options.directory, error))?;
        Ok(Store { inner, threads })
    }

    /// Opens a store, or makes one if the directory is missing or empty.
    ///
    /// # Errors
    /// As [`Store::open`] and [`Store::create`].
    pub fn open_or_create(options: &StoreOptions, new: &NewStore) -> Result<Store, StoreError> {
        match Store::open(options) {
            Err(StoreError::NoStore(_)) => Store::create(options, new),
            opened => opened,
        }
    }

    /// What all copies of the tree have in common.
    #[must_use]
    pub fn tree(&self) -> TreeIdentity {
        self.inner.tree
    }

    /// The place of this copy among those of the tree.
    #[must_use]
    pub fn slot(&self) -> ReplicaSlot {
        self.inner.slot
    }

    /// Figures for whoever watches the store.
    #[must_use]
    pub fn statistics(&self) -> StoreStatistics {
        let inner = &self.inner;
        StoreStatistics {
            batches: inner.statistics.batches.value(),
            group_commits: inner.statistics.group_commits.value(),
            data_syncs: inner.statistics.data_syncs.value(),
            bytes_read: inner.statistics.bytes_read.value(),
            bytes_written: inner.statistics.bytes_written.value(),
            objects: inner.objects.load(Ordering::Relaxed),
            dirty_files: inner.dirty.len() as u64,
            orphans: inner.orphans.load(Ordering::Relaxed),
            failed: inner.health.has_failed(),
        }
    }

    /// Update records from a position on, at most so many; only with [`StoreOptions::recording`].
    ///
    /// # Errors
    /// [`Error::Io`] when the rows cannot be read.
    pub fn updates(&self, from: u64, count: usize) -> vfs::Result<Vec<UpdateRecord>> {
        self.inner.health.check()?;
        let view = self.inner.metadata.view();
        let rows = view
            .scan(Table::Updates, &[], &key::number(from))
            .take(count);
        rows.map(|row| {
            let row = row?;
            let position = Fields::new(row.key()).u64()?;
            Ok(UpdateRecord::decode(position, row.value())?)
        })
        .collect()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.inner.removals.stop();
        self.inner.tidying.stop();
        self.inner.commits.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked; please report it");
            }
        }
    }
}

impl Inner {
    fn load(
        options: &StoreOptions,
        layout: Layout,
        identity: Identity,
    ) -> Result<Inner, StoreError> {
        let metadata = open_metadata(&layout, options)?;
        let damaged = |what: &str| StoreError::Damaged {
            path: layout.metadata(),
            what: format!("no {what}"),
        };
        let read = |key: &[u8]| {
            metadata
                .row(Table::System, key)
                .map_err(|error| metadata_error(&layout, &error))
        };
        let reserved = read(RESERVED_KEY)?.ok_or_else(|| damaged("reservation of numbers"))?;
        let reserved = Reserved::decode(&reserved).map_err(|error| damaged(error.0))?;
        let number = |row: Option<crate::metadata::Row>| {
            row.and_then(|row| Fields::new(&row).u64().ok())
                .unwrap_or(0)
        };
        let objects = number(read(OBJECTS_KEY)?);
        let opened = number(read(OPENED_KEY)?) + 1;
        let root = metadata.row(Table::Objects, &key::object(ObjectId::ROOT));
        root.map_err(|error| metadata_error(&layout, &error))?
            .ok_or_else(|| damaged("root directory"))?;
        let orphans = metadata.view().scan(Table::Orphans, &[], &[]).count() as u64;
        let mut batch = metadata.batch();
        batch.put(Table::System, OPENED_KEY, &key::number(opened));
        batch
            .commit()
            .map_err(|error| metadata_error(&layout, &error))?;
        let headroom = Headroom::new(&layout.data(), options.reserve)?;
        let layout = Arc::new(layout);
        Ok(Inner {
            properties: Properties {
                fs_id: identity.tree.fs_id,
                max_file_size: MAX_FILE_BYTES,
                max_links: options.max_links,
            },
            slot: identity.slot,
            verifier: verifier(identity.slot, opened),
            tree: identity.tree,
            commit: options.commit,
            recording: options.recording,
            clock: Arc::clone(&options.clock),
            files: DataFiles::new(Arc::clone(&layout), options.open_files),
            layout,
            metadata,
            writer: tokio::sync::Mutex::new(Writer {
                counters: Counters::resume(reserved),
                committed: Ticket::default(),
                objects,
            }),
            commits: Commits::new(),
            health: Health::default(),
            headroom,
            guards: Arc::default(),
            dirty: DirtyFiles::default(),
            shares: Mutex::default(),
            locks: Mutex::default(),
            reclaiming: AtomicBool::new(true),
            orphans: AtomicU64::new(orphans),
            objects: AtomicU64::new(objects),
            removals: Bell::default(),
            tidying: Bell::default(),
            statistics: Figures::default(),
        })
    }

    /// Nothing can be numbered before this; it also makes the count of openings stable, and with it
    /// the write verifier.
    fn reserve_numbers(&self) -> vfs::Result<()> {
        let writer = self.writer.try_lock();
        let mut writer = writer.map_err(|_| Error::Io("the store is being changed".into()))?;
        self.reserve_now(&mut writer)
    }

    /// Waits for stable storage if operations do so before they are answered.
    pub(crate) async fn settle(&self, ticket: Ticket) -> vfs::Result<()> {
        match self.commit {
            CommitMode::Sync => self.commits.wait(ticket, &self.health).await,
            CommitMode::Async => self.health.check(),
        }
    }

    /// Stable storage has failed: nothing works any more, and everybody who waits learns it.
    pub(crate) fn fail(&self, reason: &str) -> Error {
        let error = self.health.fail(reason);
        self.commits.announce_failure();
        error
    }

    pub(crate) fn hash(&self, name: &[u8]) -> NameHash {
        NameHash::of(&self.tree.name_key, name)
    }

    pub(crate) fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`vfs::FileSystem::sync`].
    pub(crate) async fn sync(self: &Arc<Self>) -> vfs::Result<()> {
        let inner = Arc::clone(self);
        blocking(move || {
            for id in inner.dirty.neglected(Duration::ZERO, usize::MAX) {
                inner.stabilise_blocking(id)?;
            }
            inner.take_marks_off(Duration::ZERO)?;
            inner.persist_all()
        })
        .await
    }
}

/// Runs work that may wait for the disk where it keeps nobody else waiting.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> vfs::Result<T> + Send + 'static,
) -> vfs::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Io(format!("the runtime ended: {error}")))?
}

/// Runs work to its end even if whoever waits for it goes away.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = vfs::Result<T>> + Send + 'static,
) -> vfs::Result<T> {
    let done = tokio::spawn(work).await;
    done.map_err(|error| Error::Io(format!("the runtime ended: {error}")))?
}

fn check_options(options: &StoreOptions) -> Result<(), StoreError> {
    if options.cache_bytes < LEAST_CACHE_BYTES {
        return Err(StoreError::Option(
            "the metadata cache needs at least 1 MiB",
        ));
    }
    if options.open_files < LEAST_OPEN_FILES {
        return Err(StoreError::Option("a store needs at least 16 open files"));
    }
    if options.max_links < 2 {
        return Err(StoreError::Option(
            "objects need at least 2 links, or nothing could be renamed",
        ));
    }
    Ok(())
}

fn open_metadata(layout: &Layout, options: &StoreOptions) -> Result<Metadata, StoreError> {
    let write_through = options.commit == CommitMode::Async;
    Metadata::open(&layout.metadata(), options.cache_bytes, write_through)
        .map_err(|error| metadata_error(layout, &error))
}

fn metadata_error(layout: &Layout, error: &crate::metadata::MetadataError) -> StoreError {
    StoreError::Metadata {
        path: layout.metadata(),
        what: error.to_string(),
    }
}

/// The rows that every store starts with.
fn write_first_rows(
    layout: &Layout,
    options: &StoreOptions,
    new: &NewStore,
) -> Result<(), StoreError> {
    let metadata = open_metadata(layout, options)?;
    let now = options.clock.now();
    let root = ObjectRow {
        mode: new.root_mode & vfs::permission::MODE_MASK,
        links: 1,
        owner: new.root_owner,
        group: new.root_group,
        size: 0,
        space_used: 0,
        change: ChangeAttribute(1),
        accessed: now,
        modified: now,
        changed: now,
        created: now,
        xattr_bytes: 0,
        content: Content::Directory(DirectoryContent {
            parent: ObjectId::ROOT,
            entries: 0,
            subdirectories: 0,
        }),
    };
    let mut batch = metadata.batch();
    batch.put(Table::Objects, &key::object(ObjectId::ROOT), &root.encode());
    batch.put(
        Table::System,
        RESERVED_KEY,
        &Counters::first_reserved().encode(),
    );
    batch.put(Table::System, OBJECTS_KEY, &key::number(1));
    batch
        .commit()
        .and_then(|()| metadata.persist())
        .map_err(|error| metadata_error(layout, &error))
}

fn random_tree() -> Result<TreeIdentity, StoreError> {
    let mut bytes = [0; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()).map_err(
            |errno| StoreError::io("draw random numbers for", "a new tree", errno.into()),
        )?;
    }
    let mut fields = Fields::new(&bytes);
    let mut half = || {
        // Invariant: 32 bytes hold four numbers of eight.
        fields.u64().expect("32 bytes hold four numbers")
    };
    let fs_id = FsId {
        major: half(),
        minor: half(),
    };
    let mut name_key = [0; 16];
    name_key[..8].copy_from_slice(&half().to_be_bytes());
    name_key[8..].copy_from_slice(&half().to_be_bytes());
    Ok(TreeIdentity { fs_id, name_key })
}

/// Different each time a store is opened, and among the copies of a tree.
fn verifier(slot: ReplicaSlot, opened: u64) -> WriteVerifier {
    WriteVerifier(((u64::from(slot.0) << 48) | (opened & ObjectId::MAX_COUNTER)).to_be_bytes())
}

fn start_threads(inner: &Arc<Inner>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let start = |name: &str, work: fn(&Inner)| {
        let inner = Arc::clone(inner);
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&inner))
    };
    Ok(vec![
        start("store-clear", |inner| {
            upkeep::clear_removals(inner, &inner.guards)
        })?,
        start("store-tidy", upkeep::tidy_marks)?,
        start("store-commit", upkeep::commit_groups)?,
    ])
}
