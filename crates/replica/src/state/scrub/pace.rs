//! The rate at which all disk checks together read, and their end with the replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::state::locks::Inner;

/// How often a check that has to wait looks whether the replica stops.
const STEP: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Shared {
    rate: u64,
    /// When everything read so far is paid for.
    paid_until: Inner<Instant>,
    stopping: AtomicBool,
    read: AtomicU64,
}

/// A rate that many checks share.
#[derive(Clone, Debug)]
pub(crate) struct Pacer(Arc<Shared>);

impl Pacer {
    /// Limits reading to `rate` bytes per second, at least one.
    pub(crate) fn new(rate: u64) -> Pacer {
        Pacer(Arc::new(Shared {
            rate: rate.max(1),
            paid_until: Inner::new(Instant::now()),
            stopping: AtomicBool::new(false),
            read: AtomicU64::new(0),
        }))
    }

    /// This many bytes were read: sleeps until as many more may be read. False if everything stops.
    pub(crate) fn pay(&self, bytes: u64) -> bool {
        self.0.read.fetch_add(bytes, Ordering::Relaxed);
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.0.rate);
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let until = {
            let mut paid = self.0.paid_until.lock();
            *paid = (*paid).max(Instant::now()) + cost;
            *paid
        };
        while !self.0.stopping.load(Ordering::Acquire) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(STEP));
        }
        false
    }

    /// Bytes read since the start.
    pub(crate) fn read(&self) -> u64 {
        self.0.read.load(Ordering::Relaxed)
    }

    /// Ends all checks.
    pub(crate) fn stop(&self) {
        self.0.stopping.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_paid_for_and_the_end_comes_at_once() {
        let pacer = Pacer::new(1000);
        let begun = Instant::now();
        assert!(pacer.pay(100));
        assert!(begun.elapsed() >= Duration::from_millis(100));
        pacer.stop();
        assert!(!pacer.pay(u64::MAX >> 32));
        assert_eq!(pacer.read(), 100 + (u64::MAX >> 32));
    }
}
