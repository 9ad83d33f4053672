//! An open store: its parts and their connection. The operations are in other modules by subject, each with its own `impl`.

use std::future::{Future, poll_fn};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use fields::Fields;
use plain_file::is_about_contents;
use tokio::runtime::RuntimeFlavor;
use tokio::sync::{broadcast, watch};
use vfs::{Error, ObjectId, Properties, ReplicaSlot, Timestamp, WriteVerifier};

use crate::clock::Clock;
use crate::committer::{Commits, Health, Ticket};
use crate::counters::{Counters, Reserved, Sequence};
use crate::data::{Buffers, DataFiles, DirtyFiles, Elsewhere, Guards, MAX_FILE_BYTES, OpenSums};
use crate::directory::Directory;
use crate::error::StoreError;
use crate::layout::{Identity, Layout};
use crate::leftovers::Leftovers;
use crate::listening::ChangeListener;
use crate::locks::Locks;
use crate::metadata::{Damage, Metadata, MetadataError, OpenError, Row, Table};
use crate::mutation::{AHEAD_KEY, OBJECTS_KEY, RESERVED_KEY, SHARED_KEY, Writer};
use crate::options::{CommitMode, StoreOptions, TreeIdentity};
use crate::orphans::Orphans;
use crate::replication::{Incomplete, MarkedFiles};
use crate::requests::Series;
use crate::rows::{NameHash, decode_time, key};
use crate::scrub::Watches;
use crate::shares::Shares;
use crate::space::{Counted, Headroom};
use crate::statistics::Metrics;
use crate::wake_signal::WakeSignal;

/// The key of the row that counts how often the store was opened.
const OPENED_KEY: &[u8] = b"opened";

/// A reader that lags behind by more than this number of lock changes learns only that it missed some.
const LOCK_CHANGES: usize = 1024;

/// The state of an open store, shared by its handles, operations in progress, and its own threads.
pub struct OpenStore {
    pub(crate) properties: Properties,
    pub(crate) slot: ReplicaSlot,
    verifier: u64,
    /// How often unstable data was lost elsewhere since the store was opened.
    losses: AtomicU64,
    /// Changes when [`OpenStore::recovered`] gets a new entry.
    pub(crate) found_lost: watch::Sender<u64>,
    /// The place for the data of files whose rows name a placement.
    pub(crate) elsewhere: Option<Arc<dyn Elsewhere>>,
    /// Whether rows may have placements.
    pub(crate) places: bool,
    /// How often the store was opened, this time included.
    opened: u64,
    pub(crate) tree: TreeIdentity,
    /// Whether operations are answered after they are on stable storage ([`CommitMode`]).
    is_sync: AtomicBool,
    pub(crate) clock: Arc<dyn Clock>,
    /// The latest time of a change: of another replica, or here since the store was opened.
    latest_change: Mutex<Timestamp>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) metadata: Metadata,
    pub(crate) writer: tokio::sync::Mutex<Writer>,
    /// Set if other replicas keep the tree: whether their clients may have a file open when it loses its last name here.
    pub(crate) keeps_removed: OnceLock<AtomicBool>,
    /// Whether other replicas know of changes made here.
    pub(crate) shared: AtomicBool,
    pub(crate) unshipped: MarkedFiles,
    /// Files whose content has to be fetched from another replica.
    pub(crate) unfetched: MarkedFiles,
    /// Files whose content the disk has changed.
    pub(crate) damaged: MarkedFiles,
    /// Files whose rows of checksums are void.
    pub(crate) voided: MarkedFiles,
    pub(crate) open_sums: OpenSums,
    pub(crate) incomplete: Incomplete,
    pub(crate) torn: MarkedFiles,
    /// Series of clients' requests.
    pub(crate) series: Series,
    /// The listener for changes.
    pub(crate) listener: OnceLock<Arc<dyn ChangeListener>>,
    /// See [`crate::OpenStore::lock_changes`].
    pub(crate) lock_changes: broadcast::Sender<ObjectId>,
    pub(crate) commits: Commits,
    pub(crate) health: Health,
    pub(crate) headroom: Headroom,
    pub(crate) counted: Counted,
    pub(crate) files: DataFiles,
    pub(crate) guards: Arc<Guards>,
    pub(crate) dirty: DirtyFiles,
    pub(crate) watches: Watches,
    pub(crate) buffers: Arc<Buffers>,
    shares: Mutex<Shares>,
    locks: Mutex<Locks>,
    /// True until clients have had time to reclaim their opens.
    pub(crate) reclaiming: AtomicBool,
    pub(crate) orphans: Orphans,
    pub(crate) objects: AtomicU64,
    /// Set while the store is being closed.
    pub(crate) closing: AtomicBool,
    pub(crate) leftovers: Leftovers,
    pub(crate) tidying: WakeSignal,
    pub(crate) summing: WakeSignal,
    pub(crate) statistics: Metrics,
}

impl OpenStore {
    /// Loads the state that every store has, without changes.
    pub(crate) fn load(
        options: &StoreOptions,
        layout: Layout,
        identity: Identity,
        (metadata, headroom): (Metadata, Headroom),
    ) -> Result<OpenStore, StoreError> {
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
        let number = |row: Option<Row>| {
            row.and_then(|row| Fields::new(&row).u64().ok())
                .unwrap_or(0)
        };
        let objects = number(read(OBJECTS_KEY)?);
        let shared = read(SHARED_KEY)?.is_some();
        let opened = number(read(OPENED_KEY)?) + 1;
        let latest_change = match read(AHEAD_KEY)? {
            Some(row) => decode_time(&mut Fields::new(&row)).map_err(|error| damaged(error.0))?,
            None => Timestamp::default(),
        };
        let orphans = Orphans::load(&metadata, identity.slot)
            .map_err(|error| metadata_error(&layout, &error))?;
        let marked = |table| {
            MarkedFiles::load(&metadata, table).map_err(|error| metadata_error(&layout, &error))
        };
        let (unshipped, unfetched) = (marked(Table::Unshipped)?, marked(Table::Unfetched)?);
        let (torn, damaged) = (marked(Table::Torn)?, marked(Table::Damaged)?);
        let voided = marked(Table::Voided)?;
        let incomplete =
            Incomplete::load(&metadata).map_err(|error| metadata_error(&layout, &error))?;
        headroom.note_metadata(metadata.unwritten_bytes(), objects);
        let series = Series::load(&metadata).map_err(|error| metadata_error(&layout, &error))?;
        let directory = Directory::open(&layout)
            .map_err(|error| StoreError::io("open", layout.root(), error))?;
        let (layout, directory) = (Arc::new(layout), Arc::new(directory));
        let counters = Counters::resume(reserved);
        let commits = Commits::new(counters.last(Sequence::Positions));
        Ok(OpenStore {
            properties: Properties {
                fs_id: identity.tree.fs_id,
                max_file_size: MAX_FILE_BYTES,
                max_links: options.max_links,
            },
            slot: identity.slot,
            verifier: verifier(identity.slot, opened),
            losses: AtomicU64::new(0),
            found_lost: watch::Sender::new(0),
            elsewhere: options.elsewhere.clone(),
            places: identity.places,
            opened,
            tree: identity.tree,
            is_sync: AtomicBool::new(options.commit == CommitMode::Sync),
            clock: Arc::clone(&options.clock),
            latest_change: Mutex::new(latest_change),
            files: DataFiles::new(
                Arc::clone(&layout),
                Arc::clone(&directory),
                affordable(options.open_files),
            ),
            directory,
            layout,
            metadata,
            writer: tokio::sync::Mutex::new(Writer {
                counters,
                committed: Ticket::default(),
                objects,
            }),
            keeps_removed: OnceLock::new(),
            listener: OnceLock::new(),
            shared: AtomicBool::new(shared),
            unshipped,
            unfetched,
            damaged,
            voided,
            open_sums: OpenSums::new(options.checksums),
            incomplete,
            torn,
            series,
            lock_changes: broadcast::Sender::new(LOCK_CHANGES),
            commits,
            health: Health::default(),
            headroom,
            counted: Counted::default(),
            guards: Arc::default(),
            dirty: DirtyFiles::default(),
            watches: Watches::default(),
            buffers: Arc::default(),
            shares: Mutex::default(),
            locks: Mutex::default(),
            reclaiming: AtomicBool::new(true),
            orphans,
            objects: AtomicU64::new(objects),
            closing: AtomicBool::new(false),
            leftovers: Leftovers::new(),
            tidying: WakeSignal::default(),
            summing: WakeSignal::default(),
            statistics: Metrics::default(),
        })
    }

    /// Prepares a loaded store for changes. No numbers can be issued before this. Also makes the
    /// count of openings stable, and so the write verifier.
    pub(crate) fn prepare_to_change(&self) -> vfs::Result<()> {
        let writer = self.writer.try_lock();
        let mut writer = writer.map_err(|_| Error::Io("the store is being changed".into()))?;
        let mut batch = self.metadata.batch();
        batch.put(Table::System, OPENED_KEY, &key::number(self.opened));
        batch
            .commit()
            .map_err(|error| self.fail(&error.to_string()))?;
        self.reserve_now(&mut writer)
    }

    /// Whether other replicas keep the tree, so that changes need a commit hook and are recorded.
    pub(crate) fn is_replicated(&self) -> bool {
        self.keeps_removed.get().is_some()
    }

    /// The write verifier, by which clients detect that unstable data may have been lost.
    #[must_use]
    pub fn verifier(&self) -> WriteVerifier {
        // These bits lie between those of the slot and of the openings, whose count never reaches them.
        let losses = self.losses.load(Ordering::Acquire) & 0xffff;
        WriteVerifier((self.verifier ^ (losses << 32)).to_be_bytes())
    }

    /// Notes that unstable data was lost: clients that wrote some must write it again.
    pub(crate) fn change_verifier(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits for stable storage if operations have to wait for it before their answer.
    pub(crate) async fn settle(&self, ticket: Ticket) -> vfs::Result<()> {
        match self.is_sync.load(Ordering::Acquire) {
            true => self.reach(ticket).await,
            false => self.health.check(),
        }
    }

    /// From now on operations are answered after they are on stable storage, since other servers build on them.
    pub fn answer_when_stable(&self) {
        self.is_sync.store(true, Ordering::Release);
    }

    /// Waits until a ticket is stable; for an operation that can do nothing else meanwhile.
    pub(crate) async fn reach(&self, ticket: Ticket) -> vfs::Result<()> {
        if can_block_in_place()
            && let Some(_leading) = self.commits.lead(ticket)
        {
            return tokio::task::block_in_place(|| self.persist_all());
        }
        self.commits.wait(ticket, &self.health).await
    }

    /// Whether the store's own threads have to end.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Stable storage has failed: every later operation fails, and all waiting tasks get the error.
    pub(crate) fn fail(&self, reason: &str) -> Error {
        let error = self.health.fail(reason);
        self.commits.announce_failure();
        error
    }

    pub(crate) fn hash(&self, name: &[u8]) -> NameHash {
        NameHash::of(&self.tree.name_key, name)
    }

    /// The latest time of a change that was made here since the store was opened, or by another replica and applied here;
    /// 1970 if there was none.
    pub(crate) fn latest_change(&self) -> Timestamp {
        *(self.latest_change.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn raise_latest_change(&self, time: Timestamp) {
        let mut latest = (self.latest_change.lock()).unwrap_or_else(PoisonError::into_inner);
        *latest = time.max(*latest);
    }

    pub(crate) fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`vfs::FileSystem::sync`].
    pub(crate) async fn sync(self: &Arc<Self>) -> vfs::Result<()> {
        let store = Arc::clone(self);
        blocking(move || {
            store.stabilise_neglected(Duration::ZERO)?;
            store.release_all_kept(&store.dirty.all_kept_of_stable())?;
            for id in store.voided.all() {
                store.clear_voided(id)?;
            }
            store.take_marks_off(Duration::ZERO)?;
            store.persist_all()
        })
        .await
    }
}

/// Whether the runtime has other threads, which run all other tasks while this one waits for the disk.
fn can_block_in_place() -> bool {
    let runtime = tokio::runtime::Handle::try_current();
    runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Runs work that may wait for the disk on a thread where no other task waits for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> vfs::Result<T> + Send + 'static,
) -> vfs::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::broken_off(error.is_cancelled(), &error))?
}

/// Runs work to its end even if the caller is cancelled. Starts it on the caller's task: often it never has to wait.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = vfs::Result<T>> + Send + 'static,
) -> vfs::Result<T> {
    let mut work = Box::pin(work);
    let begun = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    if let Poll::Ready(done) = begun {
        return done;
    }
    let done = tokio::spawn(work).await;
    done.map_err(|error| Error::broken_off(error.is_cancelled(), &error))?
}

pub(crate) fn open_metadata(
    layout: &Layout,
    options: &StoreOptions,
) -> Result<Metadata, StoreError> {
    let write_through = options.commit == CommitMode::Async;
    Metadata::open(&layout.metadata(), options.cache_bytes, write_through)
        .map_err(|error| open_error(layout, error))
}

pub(crate) fn open_error(layout: &Layout, error: OpenError) -> StoreError {
    match error {
        OpenError::Failed(error) => metadata_error(layout, &error),
        OpenError::Damaged(damage) => {
            let can_be_given_up = damage.can_be_given_up();
            let Damage { path, what, .. } = damage;
            StoreError::Rotten {
                path,
                what,
                can_be_given_up,
            }
        }
    }
}

pub(crate) fn metadata_error(layout: &Layout, error: &MetadataError) -> StoreError {
    let path = layout.metadata();
    match error.os_error() {
        Some(source) if !is_about_contents(&source) => StoreError::io("open", path, source),
        _ => StoreError::Metadata {
            path,
            what: error.to_string(),
        },
    }
}

/// The error of opening a store for the error of an operation.
pub(crate) fn opening_error(path: &Path, error: &Error) -> StoreError {
    match error {
        // At opening nothing else causes a delay.
        Error::Delay => StoreError::io("open", path, rustix::io::Errno::MFILE.into()),
        error => StoreError::Metadata {
            path: path.into(),
            what: error.to_string(),
        },
    }
}

/// The requested number of open files, but at most half of the process's limit.
fn affordable(open_files: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit / 2).unwrap_or(usize::MAX)
    });
    if half < open_files {
        tracing::warn!(
            "{open_files} data files cannot be kept open, {half} will be: \
             raise the limit of open files (ulimit -n) or lower the setting"
        );
    }
    open_files.min(half)
}

/// The part of the write verifier that differs for each opening of a store and each copy of a tree.
fn verifier(slot: ReplicaSlot, opened: u64) -> u64 {
    (u64::from(slot.0) << 48) | (opened & ObjectId::MAX_COUNTER)
}
