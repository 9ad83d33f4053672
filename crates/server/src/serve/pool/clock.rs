//! The clock on which leases within a pool are counted (decision 12).
//!
//! What must never enter: what is counted on it.

use std::sync::Arc;

use control::Moment;
use pool::LeaseClock;
use rustix::time::{ClockId, clock_gettime};

/// It goes on while the machine is suspended.
pub(super) fn of_leases() -> LeaseClock {
    Arc::new(|| {
        let now = clock_gettime(ClockId::Boottime);
        let micros = |number: i64| u64::try_from(number).unwrap_or(0);
        let seconds = micros(now.tv_sec).saturating_mul(1_000_000);
        Moment(seconds.saturating_add(micros(now.tv_nsec) / 1000))
    })
}
