//! Counts NFS operations by name and outcome. All counters are created in advance, so that counting neither locks nor
//! allocates.
//!
//! What must never enter: how the counts are shown.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nfs4_server::{NfsStat4, Observer, Opnum};

use super::latency::Latency;

/// Status codes below this are errno values, those of NFSv4 begin at [`STATUS_BASE`].
const ERRNO_STATUSES: usize = 128;
const STATUS_BASE: u32 = 10_000;
const STATUSES: usize = 2 * ERRNO_STATUSES;

/// The counters for the requests of all clients.
#[derive(Debug)]
pub(crate) struct OperationCounters {
    /// By operation number; invalid numbers count as [`Opnum::Illegal`].
    counters: Vec<OperationCounter>,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    replays: AtomicU64,
}

/// The counters of one operation.
#[derive(Debug)]
pub(super) struct OperationCounter {
    pub(super) operation: Opnum,
    pub(super) latency: Latency,
    statuses: Vec<AtomicU64>,
}

impl Default for OperationCounters {
    fn default() -> OperationCounters {
        let operations = Opnum::ALL
            .iter()
            .filter(|operation| **operation != Opnum::Illegal);
        let table_size = operations
            .clone()
            .map(|operation| *operation as usize + 1)
            .max();
        let mut counters: Vec<_> = (0..table_size.unwrap_or(1))
            .map(|_| OperationCounter::new(Opnum::Illegal))
            .collect();
        for operation in operations {
            counters[*operation as usize] = OperationCounter::new(*operation);
        }
        let (bytes_read, bytes_written) = (AtomicU64::new(0), AtomicU64::new(0));
        OperationCounters {
            counters,
            bytes_read,
            bytes_written,
            replays: AtomicU64::new(0),
        }
    }
}

impl OperationCounters {
    /// The counters of operations that occurred.
    pub(super) fn seen(&self) -> impl Iterator<Item = &OperationCounter> {
        self.counters.iter().filter(|counter| counter.total() > 0)
    }

    /// Operations executed since the start.
    pub(crate) fn total(&self) -> u64 {
        self.counters.iter().map(OperationCounter::total).sum()
    }

    /// The times of operations that read data, and of those that change something, since the start.
    pub(crate) fn times(&self) -> (TimeTaken, TimeTaken) {
        let (mut reads, mut changes) = (TimeTaken::default(), TimeTaken::default());
        for counter in &self.counters {
            match counter.operation {
                Opnum::Read => reads.add(counter),
                Opnum::Commit
                | Opnum::Create
                | Opnum::Link
                | Opnum::Open
                | Opnum::Remove
                | Opnum::Rename
                | Opnum::Setattr
                | Opnum::Write => changes.add(counter),
                _ => {}
            }
        }
        (reads, changes)
    }

    /// Bytes of files that were sent to clients.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Bytes of files that were received from clients.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Replies sent again from a reply cache.
    pub(crate) fn replays(&self) -> u64 {
        self.replays.load(Ordering::Relaxed)
    }
}

/// The number of operations, and their total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeTaken {
    pub(crate) operations: u64,
    pub(crate) took: Duration,
}

impl TimeTaken {
    fn add(&mut self, counter: &OperationCounter) {
        self.operations += counter.total();
        self.took += counter.latency.sum();
    }
}

impl OperationCounter {
    fn new(operation: Opnum) -> OperationCounter {
        let statuses = (0..STATUSES).map(|_| AtomicU64::new(0)).collect();
        OperationCounter {
            operation,
            latency: Latency::default(),
            statuses,
        }
    }

    fn total(&self) -> u64 {
        self.statuses
            .iter()
            .map(|status| status.load(Ordering::Relaxed))
            .sum()
    }

    /// The outcomes that occurred, and how often.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (NfsStat4, u64)> {
        let counted = |status: &NfsStat4| {
            let count = self.statuses[place_of(*status)].load(Ordering::Relaxed);
            (*status, count)
        };
        NfsStat4::ALL
            .iter()
            .map(counted)
            .filter(|(_, count)| *count > 0)
    }
}

/// The index of the counter for a status.
fn place_of(status: NfsStat4) -> usize {
    let number = u32::from(status);
    let place = match number.checked_sub(STATUS_BASE) {
        Some(above) => ERRNO_STATUSES + above as usize,
        None => number as usize,
    };
    place.min(STATUSES - 1)
}

impl Observer for OperationCounters {
    fn operation(&self, operation: Opnum, status: NfsStat4, took: Duration) {
        // ILLEGAL has a number far away from the others. Index zero is not an operation and is used for it.
        let counter = self
            .counters
            .get(operation as usize)
            .unwrap_or(&self.counters[0]);
        counter.statuses[place_of(status)].fetch_add(1, Ordering::Relaxed);
        counter.latency.observe(took);
    }

    fn bytes_read(&self, count: u64) {
        self.bytes_read.fetch_add(count, Ordering::Relaxed);
    }

    fn bytes_written(&self, count: u64) {
        self.bytes_written.fetch_add(count, Ordering::Relaxed);
    }

    fn replayed(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_operation_and_outcome_has_a_counter_of_its_own() {
        let counters = OperationCounters::default();
        for operation in Opnum::ALL {
            counters.operation(*operation, NfsStat4::Ok, Duration::ZERO);
        }
        assert_eq!(counters.seen().count(), Opnum::ALL.len());
        assert_eq!(counters.total(), Opnum::ALL.len() as u64);
        counters.operation(Opnum::Read, NfsStat4::Ok, Duration::from_millis(3));
        let (reads, changes) = counters.times();
        let three = Duration::from_millis(3);
        assert_eq!((reads.operations, reads.took), (2, three));
        assert_eq!((changes.operations, changes.took), (8, Duration::ZERO));
        let places: BTreeSet<_> = NfsStat4::ALL
            .iter()
            .map(|status| place_of(*status))
            .collect();
        assert_eq!(places.len(), NfsStat4::ALL.len());
    }
}
