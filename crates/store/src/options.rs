//! Options for opening and creating a store.

use std::path::PathBuf;
use std::sync::Arc;

use vfs::{FsId, ReplicaSlot};

use crate::clock::{Clock, SystemClock};
use crate::data::Elsewhere;

/// When an operation is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitMode {
    /// After it is on stable storage, as RFC 8881 requires; except for unstable writes.
    #[default]
    Sync,
    /// Before that; it becomes stable within about a second. If the process ends, nothing is lost. If the machine
    /// fails, at most the last second is lost, never more, and never a part of an operation. COMMIT and stable writes
    /// still wait.
    Async,
}

/// How much storage is reserved, so that files can be removed from a full disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reserve {
    /// 2 % of the file system below, at least 32 MiB and at most 256 MiB, but never more than a quarter of it.
    #[default]
    Automatic,
    /// This many bytes.
    Bytes(u64),
}

/// Options of a store. The next opening of the directory can use other options.
#[derive(Clone)]
pub struct StoreOptions {
    /// The directory that holds, or will hold, the whole store.
    pub directory: PathBuf,
    /// When operations are answered.
    pub commit: CommitMode,
    /// Memory for rows read from disk, in bytes; at least 1 MiB.
    pub cache_bytes: u64,
    /// The maximum number of open data files; at least 16.
    pub open_files: usize,
    /// Whether contents have checksums, which are verified at every read (decision 0017). When they are turned on again, the old ones are
    /// void and are computed again after the start.
    pub checksums: bool,
    /// The reserved storage.
    pub reserve: Reserve,
    /// The maximum number of names of one object other than a directory.
    pub max_links: u32,
    /// The clock for the times written into objects.
    pub clock: Arc<dyn Clock>,
    /// Another place than data files of the store for the data of new files, and of existing files whose rows say so. A store that
    /// once had such a place must always be opened with one.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
}

impl StoreOptions {
    /// The recommended options for a store in `directory`.
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

/// The initial values of a new store.
#[derive(Clone, Debug)]
pub struct NewStore {
    /// The tree of which this is a copy; `None` generates a new tree at random.
    pub tree: Option<TreeIdentity>,
    /// The slot of this replica; slot 0 belongs to no replica.
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

/// The identity that all copies of a tree share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TreeIdentity {
    /// Visible to clients.
    pub fs_id: FsId,
    /// The key of the hash in directory cookies. Kept secret from clients, since it would let them create names that
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
