//! The machine's clocks that count leases of sites and of pools (decision 12). Both are read without a system call.
//!
//! What must never enter: what they count.

use control::{ClockReading, Moment};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Now, on the lease clock, which continues while the machine is suspended (`CLOCK_BOOTTIME`).
#[must_use]
pub fn lease_time() -> Moment {
    Moment(micros(clock_gettime(ClockId::Boottime)))
}

/// The time of day, between two readings of the lease clock.
#[must_use]
pub fn read_clocks() -> ClockReading {
    let before = lease_time();
    let time_of_day_us = micros(clock_gettime(ClockId::Realtime));
    ClockReading {
        before,
        time_of_day_us,
        after: lease_time(),
    }
}

fn micros(time: Timespec) -> u64 {
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    let seconds = unsigned(time.tv_sec).saturating_mul(1_000_000);
    seconds.saturating_add(unsigned(time.tv_nsec) / 1000)
}
