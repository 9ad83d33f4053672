//! The measurements, each run in a process of its own so that memory and caches start empty.

pub mod burst;
pub mod crash;
pub mod disk;
pub mod hazards;
pub mod population;
pub mod serve;

use std::time::{Duration, Instant};

/// Prints one figure for the process that collects them.
pub fn figure(name: &str, value: f64) {
    println!("figure {name} {value}");
}

/// Prints one figure that is a rate per second.
pub fn rate(name: &str, count: usize, elapsed: Duration) {
    figure(name, count as f64 / elapsed.as_secs_f64());
}

/// How long each operation took.
#[derive(Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Runs `operation` and keeps its duration.
    pub fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let outcome = operation();
        self.0.push(start.elapsed());
        outcome
    }

    /// Joins the measurements of another thread to these.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Number of operations.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The duration that 99 of 100 operations did not exceed, in milliseconds.
    pub fn p99_ms(&mut self) -> f64 {
        self.0.sort_unstable();
        let index = self.0.len().saturating_sub(1) * 99 / 100;
        self.0
            .get(index)
            .map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    }
}
