//! What one workload did: how much, in what time, and how long single operations took.
//!
//! What must never enter: which server did it.

use std::time::{Duration, Instant};

/// The count of one worker, or of all workers together.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    /// Operations, entries or bytes, as the workload counts.
    pub(crate) amount: u64,
    /// How long each operation took, in microseconds.
    pub(crate) latencies_us: Vec<u32>,
}

impl Tally {
    /// Counts an operation that began then and did this much.
    pub(crate) fn add(&mut self, began: Instant, amount: u64) {
        self.amount += amount;
        let took = began.elapsed().as_micros();
        self.latencies_us
            .push(u32::try_from(took).unwrap_or(u32::MAX));
    }

    /// Takes in another worker's count.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.amount += other.amount;
        self.latencies_us.extend(other.latencies_us);
    }

    /// The latency that this share of the operations did not exceed, in microseconds.
    pub(crate) fn percentile(&mut self, share: f64) -> u32 {
        if self.latencies_us.is_empty() {
            return 0;
        }
        let last = self.latencies_us.len() - 1;
        let index = (share * last as f64).round() as usize;
        *self.latencies_us.select_nth_unstable(index.min(last)).1
    }
}

/// How long a workload goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    deadline: Instant,
}

impl Span {
    /// From now on for this long.
    pub(crate) fn of(length: Duration) -> Self {
        Self {
            deadline: Instant::now() + length,
        }
    }

    /// False once the time is over.
    pub(crate) fn goes_on(self) -> bool {
        Instant::now() < self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut tally = Tally {
            amount: 0,
            latencies_us: (1..=100).rev().collect(),
        };
        assert_eq!(tally.percentile(0.0), 1);
        assert_eq!(tally.percentile(0.5), 51);
        assert_eq!(tally.percentile(0.99), 99);
        assert_eq!(tally.percentile(1.0), 100);
        assert_eq!(Tally::default().percentile(0.5), 0);
    }

    #[test]
    fn tallies_add_up() {
        let mut all = Tally::default();
        let mut one = Tally::default();
        one.add(Instant::now(), 3);
        all.absorb(one.clone());
        all.absorb(one);
        assert_eq!((all.amount, all.latencies_us.len()), (6, 2));
    }
}
