//! How fast this replica may send to replicas on their way back into the view.
//!
//! What must never enter: what is sent, and which replicas are on the way back.

use std::time::Duration;

use tokio::time::Instant;

use crate::state::locks::Inner;

/// A limit on bytes per second for everything that is sent under it.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_a_second: Option<u64>,
    /// When everything that was sent so far is paid for.
    paid: Inner<Option<Instant>>,
}

impl Pace {
    /// `None` is no limit.
    pub(crate) fn new(bytes_a_second: Option<u64>) -> Pace {
        Pace {
            bytes_a_second,
            paid: Inner::new(None),
        }
    }

    /// This many bytes were sent: returns when the next may be sent. A caller that comes meanwhile waits longer.
    pub(crate) async fn spend(&self, bytes: u64) {
        if let Some(next) = self.book(Instant::now(), bytes) {
            tokio::time::sleep_until(next).await;
        }
    }

    fn book(&self, now: Instant, bytes: u64) -> Option<Instant> {
        let rate = self.bytes_a_second?.max(1);
        #[expect(clippy::cast_precision_loss, reason = "a time, not an account")]
        let cost = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let mut paid = self.paid.lock();
        // Unused time is not saved.
        let next = paid.map_or(now, |paid| paid.max(now)) + cost;
        *paid = Some(next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_cost_time_for_everybody_and_idle_time_is_not_saved() {
        let (pace, now) = (Pace::new(Some(1000)), Instant::now());
        let after = |ms| Some(now + Duration::from_millis(ms));
        assert_eq!(pace.book(now, 500), after(500));
        assert_eq!(pace.book(now, 500), after(1000));
        let later = now + Duration::from_millis(5000);
        assert_eq!(pace.book(later, 100), after(5100));
        assert_eq!(Pace::new(None).book(now, u64::MAX), None);
    }
}
