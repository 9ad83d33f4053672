//! A store as its owner sees it: how it is made and opened, what it says about itself, how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use bytes::Bytes;
use vfs::{Error, ObjectId, ReplicaSlot, Timestamp};

use crate::codec::Fields;
use crate::commit_hook::CommitHook;
use crate::creation::{random_tree, write_first_rows};
use crate::error::StoreError;
use crate::inner::{Inner, open_metadata, opening_error};
use crate::layout::{Identity, Layout};
use crate::maintenance;
use crate::metadata::Table;
use crate::operation::Operation;
use crate::options::{NewStore, StoreOptions, TreeIdentity};
use crate::recording::UpdateRecord;
use crate::recovered;
use crate::rows::key;
use crate::scrub;
use crate::space::Headroom;
use crate::statistics::StoreStatistics;

const LEAST_CACHE_BYTES: u64 = 1 << 20;
const LEAST_OPEN_FILES: usize = 16;

/// A copy of a tree in a local directory.
///
/// All work happens through [`vfs::FileSystem`], which has to be called within a tokio runtime.
/// Dropping the last handle stops the store's threads and makes rows stable; data that no client committed is then
/// treated as after a crash, so call [`vfs::FileSystem::sync`] before a graceful stop.
pub struct Store {
    pub(crate) inner: Operation,
    threads: Arc<Threads>,
}

/// The store's own threads, which end with the last handle on it.
struct Threads {
    inner: Arc<Inner>,
    running: Vec<JoinHandle<()>>,
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
            places: options.elsewhere.is_some(),
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
        let (layout, mut identity) = Layout::open(&options.directory)?;
        match (identity.places, &options.elsewhere) {
            (true, None) => return Err(StoreError::Elsewhere(options.directory.clone())),
            (false, Some(_)) => {
                // Before any row says so, older programs have to be kept away.
                identity.places = true;
                layout.write_identity(&identity)?;
            }
            (true, Some(_)) | (false, None) => {}
        }
        // First, because it makes room for the rows where there is none.
        let headroom = Headroom::new(layout.root(), &layout.data(), options.reserve)?;
        let metadata = open_metadata(&layout, options)?;
        let parts = (metadata, headroom);
        let inner = Arc::new(Inner::load(options, layout, identity, parts)?);
        let failed = |error: Error| opening_error(&options.directory, &error);
        // Without a root there is nothing to serve; the check can make a new one.
        inner.object(ObjectId::ROOT).map_err(failed)?;
        inner.prepare_to_change().map_err(failed)?;
        inner.recover_dirty_files().map_err(failed)?;
        inner.settle_sums().map_err(failed)?;
        recovered::clear_unfinished(inner.layout.root());
        scrub::clear_unfinished(&inner.layout);
        let threads = start_threads(&inner)
            .map_err(|error| StoreError::io("start threads for", &options.directory, error))?;
        let threads = Arc::new(Threads {
            inner: Arc::clone(&inner),
            running: threads,
        });
        let inner = Operation { inner, hook: None };
        Ok(Store { inner, threads })
    }

    /// The same store for one operation, which has this hook asked before its changes are committed.
    #[must_use]
    pub fn with_hook(&self, hook: Arc<dyn CommitHook>) -> Store {
        Store {
            inner: Operation {
                inner: Arc::clone(&self.inner.inner),
                hook: Some(hook),
            },
            threads: Arc::clone(&self.threads),
        }
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

    /// Gives up a little of the room that is kept back on the disk of the store, for something small that lies beside it
    /// and cannot wait until the disk is not full any more. Says whether there was any to spare: what the last removals need
    /// stays.
    #[must_use]
    pub fn give_room(&self) -> bool {
        self.inner.headroom.give_room()
    }

    /// The place of this copy among those of the tree.
    #[must_use]
    pub fn slot(&self) -> ReplicaSlot {
        self.inner.slot
    }

    /// The time of day by the clock that the times of objects are taken from.
    #[must_use]
    pub fn time_of_day(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Its metrics.
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
            orphans: inner.orphans.len() as u64,
            requests: inner.series.len(),
            failed: inner.health.has_failed(),
        }
    }

    /// How many bytes of the disk the store takes up: contents, rows, ballast, discarded versions. Counted at most once a
    /// minute, since all rows of objects are read; it blocks as long as that takes.
    ///
    /// # Errors
    /// [`Error::Io`] when rows or directories cannot be read.
    pub fn occupied_bytes(&self) -> vfs::Result<u64> {
        self.inner.occupied_bytes()
    }

    /// Whether stable storage has failed because the disk was full: opened anew, the store may go on.
    #[must_use]
    pub fn has_lacked_room(&self) -> bool {
        self.inner.health.has_lacked_room()
    }

    /// Whether fewer files can be opened than the embedded store needs, which ends when it cannot open one, or could be a moment
    /// ago: opened anew, the store may go on.
    #[must_use]
    pub fn has_lacked_descriptors(&self) -> bool {
        self.inner.metadata.has_lacked_descriptors()
    }

    /// The row that an update record speaks of, as it is now.
    ///
    /// # Errors
    /// [`Error::Io`] when the row cannot be read; [`Error::Invalid`] for a table that does not exist.
    pub fn row(&self, table: u8, key: &[u8]) -> vfs::Result<Option<Bytes>> {
        let table = Table::from_tag(table).ok_or(Error::Invalid("no such table"))?;
        let row = self.inner.metadata.row(table, key)?;
        Ok(row.map(|row| Bytes::copy_from_slice(&row)))
    }

    /// Update records from a position on, at most `count`. There are some for changes to which
    /// a [`crate::CommitHook`] gave a note.
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

impl Drop for Threads {
    fn drop(&mut self) {
        self.inner.closing.store(true, Ordering::Release);
        self.inner.leftovers.signal.stop();
        self.inner.tidying.stop();
        self.inner.summing.stop();
        let committing = self.running.pop();
        // What the others still wait for may have to become stable first.
        self.running.drain(..).for_each(join);
        self.inner.commits.stop();
        committing.into_iter().for_each(join);
        // Operations still under way would wait for stable storage that nobody brings any more.
        self.inner.health.close();
        self.inner.commits.announce_failure();
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the store panicked; please report it");
    }
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

/// The last one makes batches stable.
fn start_threads(inner: &Arc<Inner>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let start = |name: &str, work: fn(&Inner)| {
        let inner = Arc::clone(inner);
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&inner))
    };
    Ok(vec![
        start("store-clear", |inner| {
            maintenance::clear_removals(inner, &inner.guards)
        })?,
        start("store-tidy", maintenance::tidy_marks)?,
        start("store-sum", maintenance::make_sums)?,
        start("store-commit", maintenance::commit_groups)?,
    ])
}
