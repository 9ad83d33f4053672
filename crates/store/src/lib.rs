//! One local copy of a tree: a directory on disk that serves as a [`vfs::FileSystem`].
//!
//! Metadata are rows in an embedded store, changed by one atomic batch per operation. The data of each
//! regular file is a sparse file of the local file system, or lies where the caller that opens the store keeps it ([`Elsewhere`]).
//! `docs/disk-format.md` describes both, and the state after a crash.
//!
//! The owner holds a [`Store`]; when its last handle is dropped, the store's threads end. It leads to the working types: an [`OpenStore`]
//! is all shared state of the open store, and an [`Operation`] adds the commit hook of one operation. Their methods are in the
//! modules of their subjects.
//!
//! What must never enter: NFS, sockets, and how replicas agree. But it contains what they need of a store:
//! identifiers created without coordination, versions and positions that are never used twice,
//! marks for files whose data may not be stable, a [`CommitHook`] that is called before changes, records of
//! changes, functions to apply changes of other replicas (`replication`) and to compare copies (`scrub`), and
//! a place for versions that a decision discarded (`recovered`).
//!
//! Memory is bounded by [`StoreOptions::cache_bytes`] and [`StoreOptions::open_files`], by the write
//! buffers of the embedded store (about 24 MiB, at most 120), and by what is in use: opens and locks
//! (both limited per file), operations in progress, and files that are being written.

mod about;
mod access;
mod attributes;
mod check;
mod clock;
mod commit_hook;
mod committer;
mod counters;
mod creation;
mod data;
mod directory;
mod error;
mod file_system;
mod layout;
mod leftovers;
mod listening;
mod locks;
mod maintenance;
mod malformed;
mod metadata;
mod mutation;
mod namespace;
mod open_store;
mod opens;
mod operation;
mod options;
mod orphans;
mod ownership;
mod recording;
pub mod recovered;
mod recovery;
mod replication;
mod requests;
mod row_cache;
mod rows;
mod run_cache;
mod scrub;
mod shares;
mod space;
mod statistics;
mod store;
mod waiting;
mod wake_signal;
mod xattrs;

/// Decodes arbitrary bytes as every kind of row, record and file, and as a journal, for fuzzing; discards the results.
#[doc(hidden)]
pub fn decode_as_anything(bytes: &[u8]) {
    rows::decode_as_anything(bytes);
    metadata::decode_as_anything(bytes);
    data::decode_as_anything(bytes);
    replication::decode_as_anything(bytes);
    scrub::decode_as_anything(bytes);
    layout::decode_as_anything(bytes);
    recovered::decode_as_anything(bytes);
    let _ = UpdateRecord::decode(1, bytes);
    let _ = counters::Reserved::decode(bytes);
}

pub use check::{Finding, Report};
pub use clock::{Clock, SystemClock};
pub use commit_hook::{Change, CommitHook, Touched, TouchedKind};
pub use committer::Ticket;
pub use data::{
    AtHand, Contents, Cut, Elsewhere, Need, Place, PlaceAnew, Placed, PlacedRows, Replacement,
    Stored, SyncError,
};
pub use error::StoreError;
pub use listening::ChangeListener;
pub use namespace::Arrival;
pub use open_store::OpenStore;
pub use operation::Operation;
pub use options::{CommitMode, NewStore, Reserve, StoreOptions, TreeIdentity};
pub use recording::{RowChange, RowSubject, UpdateRecord};
pub use replication::{
    BasePlace, BaseScan, BaseState, BeforeCommit, ContentPiece, Fate, ForeignUpdate, LinkChange,
    MergedRows, VersionBefore,
};
pub use scrub::{ContentDigest, Mending, MetadataDigest, Pace, Verified};
pub use statistics::StoreStatistics;
pub use store::Store;
