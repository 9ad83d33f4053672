//! The owner's view of a store: creating, opening, and closing it.
//!
//! There are three types, one inside the other. [`OpenStore`] is all shared state of the open store; it does everything
//! that needs no commit hook. An [`Operation`] adds the hook of one operation. It keeps the state alive while in progress,
//! but no threads. A [`Store`] is the owner's handle: when the last one is dropped, the store's threads end.
//!
//! What must never enter: what an operation does.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use vfs::{Error, ObjectId, ReplicaSlot};

use crate::commit_hook::CommitHook;
use crate::creation::{random_tree, write_first_rows};
use crate::error::StoreError;
use crate::layout::{Identity, Layout};
use crate::maintenance;
use crate::open_store::{OpenStore, open_metadata, opening_error};
use crate::operation::Operation;
use crate::options::{NewStore, StoreOptions};
use crate::recovered;
use crate::scrub;
use crate::space::Headroom;

const LEAST_CACHE_BYTES: u64 = 1 << 20;
const LEAST_OPEN_FILES: usize = 16;

/// A copy of a tree in a local directory.
///
/// Clients' work happens through [`vfs::FileSystem`], which has to be called within a tokio runtime. Other functions for the layers
/// above are methods of [`OpenStore`] and [`Operation`], to which a handle dereferences.
///
/// Dropping the last handle stops the store's threads and makes rows stable. Data without a COMMIT is then
/// treated as after a crash, so call [`vfs::FileSystem::sync`] before a graceful stop.
pub struct Store {
    pub(crate) operation: Operation,
    threads: Arc<Threads>,
}

/// The store's own threads, which end with the last handle.
struct Threads {
    store: Arc<OpenStore>,
    running: Vec<JoinHandle<()>>,
}

impl Store {
    /// Creates a new store in a missing or empty directory, and opens it.
    ///
    /// # Errors
    /// [`StoreError`] contains the reason.
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

    /// Opens a store and repairs what a crash may have left.
    ///
    /// # Errors
    /// [`StoreError`] contains the problem and the remedy.
    pub fn open(options: &StoreOptions) -> Result<Store, StoreError> {
        check_options(options)?;
        let (layout, mut identity) = Layout::open(&options.directory)?;
        match (identity.places, &options.elsewhere) {
            (true, None) => return Err(StoreError::Elsewhere(options.directory.clone())),
            (false, Some(_)) => {
                // Older programs must be locked out before any row has a placement.
                identity.places = true;
                layout.write_identity(&identity)?;
            }
            (true, Some(_)) | (false, None) => {}
        }
        // First, because it frees space for the rows on a full disk.
        let headroom = Headroom::new(layout.root(), &layout.data(), options.reserve)?;
        let metadata = open_metadata(&layout, options)?;
        let parts = (metadata, headroom);
        let store = Arc::new(OpenStore::load(options, layout, identity, parts)?);
        let failed = |error: Error| opening_error(&options.directory, &error);
        // A store without a root cannot serve; the check can create a new root.
        store.object(ObjectId::ROOT).map_err(failed)?;
        store.prepare_to_change().map_err(failed)?;
        store.recover_dirty_files().map_err(failed)?;
        store.settle_sums().map_err(failed)?;
        recovered::clear_unfinished(store.layout.root());
        scrub::clear_unfinished(&store.layout);
        let threads = start_threads(&store)
            .map_err(|error| StoreError::io("start threads for", &options.directory, error))?;
        let threads = Arc::new(Threads {
            store: Arc::clone(&store),
            running: threads,
        });
        let operation = Operation { store, hook: None };
        Ok(Store { operation, threads })
    }

    /// The same store for one operation; this hook is called before the operation's changes are committed.
    #[must_use]
    pub fn with_hook(&self, hook: Arc<dyn CommitHook>) -> Store {
        Store {
            operation: Operation {
                store: Arc::clone(&self.operation.store),
                hook: Some(hook),
            },
            threads: Arc::clone(&self.threads),
        }
    }

    /// Opens a store, or creates one if the directory is missing or empty.
    ///
    /// # Errors
    /// As [`Store::open`] and [`Store::create`].
    pub fn open_or_create(options: &StoreOptions, new: &NewStore) -> Result<Store, StoreError> {
        match Store::open(options) {
            Err(StoreError::NoStore(_)) => Store::create(options, new),
            opened => opened,
        }
    }
}

impl Deref for Store {
    type Target = Operation;

    fn deref(&self) -> &Operation {
        &self.operation
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.store.closing.store(true, Ordering::Release);
        self.store.leftovers.signal.stop();
        self.store.tidying.stop();
        self.store.summing.stop();
        let committing = self.running.pop();
        // The other threads may still wait for stable storage.
        self.running.drain(..).for_each(join);
        self.store.commits.stop();
        committing.into_iter().for_each(join);
        // Operations in progress would wait for stable storage for ever.
        self.store.health.close();
        self.store.commits.announce_failure();
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

/// The last of these threads makes batches stable.
fn start_threads(store: &Arc<OpenStore>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let start = |name: &str, work: fn(&OpenStore)| {
        let store = Arc::clone(store);
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&store))
    };
    Ok(vec![
        start("store-clear", |store| {
            maintenance::clear_removals(store, &store.guards)
        })?,
        start("store-tidy", maintenance::tidy_marks)?,
        start("store-sum", maintenance::make_sums)?,
        start("store-commit", maintenance::commit_groups)?,
    ])
}
