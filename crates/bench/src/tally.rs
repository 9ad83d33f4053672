//! The result of one workload: amount, time, and latencies of operations.
//!
//! What must never enter: the server.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Significant digits of latencies.
const DIGITS: u8 = 3;

/// The upper bound of recorded latencies, in microseconds: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// The count of one worker, or of all workers together.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Operations, entries or bytes, as the workload counts.
    pub amount: u64,
    /// The latencies of operations, in microseconds.
    latencies_us: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            amount: 0,
            latencies_us: Histogram::new_with_max(LONGEST_US, DIGITS)
                .expect("a histogram may have three digits and an hour"),
        }
    }
}

impl Tally {
    /// Counts an operation that began then, with this amount.
    pub fn add(&mut self, began: Instant, amount: u64) {
        self.took(began.elapsed());
        self.amount += amount;
    }

    /// Records the latency of an operation.
    pub fn took(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.latencies_us.saturating_record(us);
    }

    /// The number of operations.
    pub fn operations(&self) -> u64 {
        self.latencies_us.len()
    }

    /// Adds another worker's count.
    pub fn absorb(&mut self, other: &Self) {
        self.amount += other.amount;
        self.latencies_us += &other.latencies_us;
    }

    /// The mean latency of operations, in microseconds, with three significant digits.
    pub fn mean(&self) -> f64 {
        self.latencies_us.mean()
    }

    /// The latency that this share of the operations did not exceed, in microseconds, with three significant digits.
    pub fn percentile(&self, share: f64) -> u64 {
        self.latencies_us.value_at_quantile(share)
    }
}

/// The length of a workload.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    deadline: Instant,
}

impl Span {
    /// From now on for this long.
    pub fn of(length: Duration) -> Self {
        Self {
            deadline: Instant::now() + length,
        }
    }

    /// False once the time is over.
    pub fn goes_on(self) -> bool {
        Instant::now() < self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut tally = Tally::default();
        (1..=100).for_each(|us| tally.took(Duration::from_micros(us)));
        let shares = [0.0, 0.5, 0.99, 1.0].map(|share| tally.percentile(share));
        assert_eq!(shares, [1, 50, 99, 100]);
        assert_eq!(Tally::default().percentile(0.5), 0);
        for seconds in [1, 10_000] {
            tally.took(Duration::from_secs(seconds));
        }
        let longest = tally.percentile(1.0);
        assert!((LONGEST_US..LONGEST_US + LONGEST_US / 1000).contains(&longest));
        let second = tally.percentile(0.99);
        assert!((1_000_000..1_001_000).contains(&second), "{second}");
    }

    #[test]
    fn tallies_add_up() {
        let mut all = Tally::default();
        let mut one = Tally::default();
        one.add(Instant::now(), 3);
        all.absorb(&one);
        all.absorb(&one);
        assert_eq!((all.amount, all.operations()), (6, 2));
    }
}
