//! How fast files are moved.
//!
//! What must never enter: which files.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A common limit of copied bytes per second for all users, and their count.
#[derive(Debug)]
pub struct Pace {
    bytes_a_second: u64,
    /// When the next bytes may be copied.
    next: Mutex<Option<Instant>>,
    copied: AtomicU64,
}

impl Pace {
    /// At most this many bytes per second; 0: no limit.
    #[must_use]
    pub fn new(bytes_a_second: u64) -> Pace {
        Pace {
            bytes_a_second,
            next: Mutex::new(None),
            copied: AtomicU64::new(0),
        }
    }

    /// The number of bytes copied.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Counts bytes that are copied without delay, because writers wait for them.
    pub(crate) fn count(&self, bytes: u64) {
        self.copied.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Waits until this many bytes may be copied.
    pub(crate) async fn take(&self, bytes: u64) {
        self.count(bytes);
        if self.bytes_a_second == 0 {
            return;
        }
        let span = Duration::from_secs_f64(bytes as f64 / self.bytes_a_second as f64);
        let begins = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let begins = next.map_or_else(Instant::now, |next| next.max(Instant::now()));
            *next = Some(begins + span);
            begins
        };
        tokio::time::sleep_until(begins).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_is_copied_than_the_pace_allows() {
        let pace = Pace::new(1000);
        let begun = Instant::now();
        for _ in 0..5 {
            pace.take(500).await;
        }
        assert_eq!(begun.elapsed().as_secs(), 2, "the first 2000 bytes are due");
        assert_eq!(pace.copied(), 2500);
        // Unused time is not saved up.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let begun = Instant::now();
        pace.take(1000).await;
        pace.take(1000).await;
        assert_eq!(begun.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_bound_nobody_waits() {
        let (pace, begun) = (Pace::new(0), Instant::now());
        pace.take(u64::MAX / 2).await;
        assert_eq!(begun.elapsed().as_secs(), 0);
    }
}
