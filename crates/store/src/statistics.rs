//! Metrics of a running store.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Metric(AtomicU64);

impl Metric {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a running store.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) batches: Metric,
    pub(crate) group_commits: Metric,
    pub(crate) data_syncs: Metric,
    pub(crate) bytes_read: Metric,
    pub(crate) bytes_written: Metric,
}

/// Metrics of a store; counters since it was opened, or current values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatistics {
    /// Operations that changed rows, maintenance included.
    pub batches: u64,
    /// Flushes of rows; `batches / group_commits` is the mean size of a group.
    pub group_commits: u64,
    /// Flushes of the data of a file.
    pub data_syncs: u64,
    /// Bytes of data read by clients; missing in reports of older servers.
    #[serde(default)]
    pub bytes_read: u64,
    /// Bytes of data written by clients.
    pub bytes_written: u64,
    /// Objects in the tree now, including the root and removed files that are still open.
    pub objects: u64,
    /// Files that may have unstable data now.
    pub dirty_files: u64,
    /// Removed files that are, or may be, open now.
    pub orphans: u64,
    /// Series of requests on record now, so that a repeat is recognised after a restart.
    #[serde(default)]
    pub requests: u64,
    /// Whether stable storage has failed, so that every operation fails.
    pub failed: bool,
}
