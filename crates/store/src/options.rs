//! What can be chosen when a store is opened or made.

use std::path::PathBuf;
use std::sync::Arc;

use vfs::{FsId, ReplicaSlot};

use crate::clock::{Clock, SystemClock};
use crate::data::Elsewhere;

/// When an operation is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitMode {
    /// After it is on stable storage, as RFC 8881 wants; unstable writes excepted.
    #[default]
    Sync,
    /// Before; it gets there within about a second. The end of the process loses nothing, the end of
    /// the machine loses that second, never more and never in the middle. COMMIT and stable writes
    /// still wait.
    Async,
}

/// How much storage is kept back, so that things can be removed from a full disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reserve {
    /// 2 % of the file system below, at least 32 MiB and at most 256 MiB, but never more than a quarter of it.
    #[default]
    Automatic,
    /// This many bytes.
    Bytes(u64),
}

/// How a store works. The same directory can be opened with other options next time.
#[derive(Clone)]
pub struct StoreOptions {
    /// The directory that holds, or will hold, the whole store.
    pub directory: PathBuf,
    /// When operations are answered.
    pub commit: CommitMode,
    /// Memory for rows read from disk, in bytes; at least 1 MiB.
    pub cache_bytes: u64,
    /// The most data files kept open, at least 16.
    pub open_files: usize,
    /// Whether contents have checksums, with which every read is compared (decision 0017). Once they have them again, what counts is made
    /// anew behind the start.
    pub checksums: bool,
    /// What is kept back of the storage.
    pub reserve: Reserve,
    /// The largest number of names of one object other than a directory.
    pub max_links: u32,
    /// Tells the times written into objects.
    pub clock: Arc<dyn Clock>,
    /// Where the data of new files goes, and that of others is, if not into data files of the store. A store that once had
    /// such a place is opened with one ever after.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
}

impl StoreOptions {
    /// Everything as recommended, for a store in `directory`.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> StoreOptions {
        StoreOptions {
            directory: directory.into(),
            commit: CommitMode::Sync,
            cache_bytes: 64 << 20,
            open_files: 1024,
            checksums: true,
            reserve: Reserve::Automatic,
            max_links: 65_000,
            clock: Arc::new(SystemClock),
            elsewhere: None,
        }
    }
}

/// What a new store starts with.
#[derive(Clone, Debug)]
pub struct NewStore {
    /// The tree to be a copy of; `None` draws a new tree at random.
    pub tree: Option<TreeIdentity>,
    /// The place of this replica; slot 0 belongs to no replica.
    pub slot: ReplicaSlot,
    /// Permission bits of the root directory.
    pub root_mode: u32,
    /// Owner of the root directory.
    pub root_owner: u32,
    /// Group of the root directory.
    pub root_group: u32,
}

impl Default for NewStore {
    fn default() -> Self {
        NewStore {
            tree: None,
            slot: ReplicaSlot(1),
            root_mode: 0o755,
            root_owner: 0,
            root_group: 0,
        }
    }
}

/// What all copies of a tree have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TreeIdentity {
    /// Shown to clients.
    pub fs_id: FsId,
    /// Key of the hash behind directory cookies. Kept from clients, or they could make names that
    /// collide.
    pub name_key: [u8; 16],
}

impl std::fmt::Debug for TreeIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TreeIdentity")
            .field("fs_id", &self.fs_id)
            .finish_non_exhaustive()
    }
}
