//! Counts durations in buckets by length, without locks.
//!
//! What must never enter: what the durations belong to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in microseconds; longer durations have a bucket of their own.
const BOUNDS_US: [u64; 14] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 1_000_000, 10_000_000,
];

/// Counts of durations.
#[derive(Debug, Default)]
pub(super) struct Latency {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

impl Latency {
    pub(super) fn observe(&self, took: Duration) {
        let bucket = BOUNDS_US
            .iter()
            .position(|bound| took <= Duration::from_micros(*bound));
        self.buckets[bucket.unwrap_or(BOUNDS_US.len())].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// The sum of all durations.
    pub(super) fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed))
    }

    /// Sum in seconds, number, and the number in each bucket with its bound in seconds.
    pub(super) fn totals(&self) -> (f64, u64, Vec<(f64, u64)>) {
        let bounds = BOUNDS_US
            .iter()
            .map(|bound| Duration::from_micros(*bound).as_secs_f64());
        let bounds = bounds.chain([f64::INFINITY]);
        let counts = self
            .buckets
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        (self.sum().as_secs_f64(), count, buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_first_bucket_that_holds_them() {
        let latency = Latency::default();
        for microseconds in [0, 10, 11, 1_000, 99_000_000] {
            latency.observe(Duration::from_micros(microseconds));
        }
        let (sum, count, buckets) = latency.totals();
        assert_eq!(count, 5);
        assert!((sum - 99.001_021).abs() < 1e-9, "{sum}");
        let filled: Vec<_> = buckets
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(
            filled,
            [(1e-5, 2), (2.5e-5, 1), (1e-3, 1), (f64::INFINITY, 1)]
        );
    }
}
