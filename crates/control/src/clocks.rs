//! Compares two clocks to detect jumps that one clock alone cannot detect.
//!
//! The clock of leases (on Linux `CLOCK_BOOTTIME`) continues while a machine is suspended. It does not detect that a
//! virtual machine was paused or restored from a snapshot. After that, the hypervisor's agent or a daemon sets the time
//! of day again. Both clocks are slewed together, so their difference changes only when the time of day is set.
//!
//! What must never enter: reading a clock.

use crate::moment::Moment;
use std::time::Duration;

/// The time of day, and the clock of leases before and after it was read: the process may lose its processor between
/// two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The clock of leases, before.
    pub before: Moment,
    /// The time of day, in microseconds since 1970.
    pub time_of_day_us: u64,
    /// The clock of leases, after.
    pub after: Moment,
}

/// The result of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSight {
    /// The difference between the clocks is unchanged.
    Steady,
    /// One of them has jumped relative to the other.
    Jumped,
    /// The reading took too long to decide. It must be repeated.
    Unclear,
}

impl ClockReading {
    /// The minimum and maximum of how far the time of day may have been ahead, in microseconds.
    fn bounds_us(self) -> (i64, i64) {
        let signed = |micros: u64| i64::try_from(micros).unwrap_or(i64::MAX);
        let time_of_day = signed(self.time_of_day_us);
        let least = time_of_day.saturating_sub(signed(self.after.0));
        (least, time_of_day.saturating_sub(signed(self.before.0)))
    }

    /// How far the time of day is ahead of the clock of leases, in microseconds. `None` when the reading took too long:
    /// its error is more than a quarter of `allowed`.
    #[must_use]
    pub fn ahead_us(self, allowed: Duration) -> Option<i64> {
        let (least, most) = self.bounds_us();
        let known = most.saturating_sub(least) <= micros(allowed) / 4;
        known.then_some(least)
    }
}

/// Judges a reading: the clocks differed by `ahead_us`, and may drift apart by `allowed`.
pub(crate) fn judge(ahead_us: i64, allowed: Duration, reading: ClockReading) -> ClockSight {
    let (least, most) = reading.bounds_us();
    let allowed = micros(allowed);
    let (low, high) = (
        ahead_us.saturating_sub(allowed),
        ahead_us.saturating_add(allowed),
    );
    if low <= least && most <= high {
        ClockSight::Steady
    } else if most < low || high < least {
        ClockSight::Jumped
    } else {
        ClockSight::Unclear
    }
}

/// Up to the maximum number of readings, until one of them is clear: the process may lose its processor several times
/// between the readings of the two clocks.
pub fn readings(read: impl Fn() -> ClockReading) -> impl Iterator<Item = ClockReading> {
    (0..16).map(move |_| read())
}

/// The time on the clock of leases, if the clocks still differ by `ahead_us`, within `allowed`. `None`: one of them has
/// jumped, or no reading was clear.
pub fn steady(ahead_us: i64, allowed: Duration, read: impl Fn() -> ClockReading) -> Option<Moment> {
    let mut sights = readings(read).map(|reading| (judge(ahead_us, allowed, reading), reading));
    let clear = sights.find(|(sight, _)| *sight != ClockSight::Unclear)?;
    (clear.0 == ClockSight::Steady).then_some(clear.1.after)
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Duration = Duration::from_millis(100);

    fn reading(before: u64, time_of_day_us: u64, after: u64) -> ClockReading {
        ClockReading {
            before: Moment(before),
            time_of_day_us,
            after: Moment(after),
        }
    }

    #[test]
    fn a_process_that_lost_its_processor_between_readings_cannot_tell() {
        // 300 ms passed between the first reading and the last.
        let slow = reading(0, 1_000_000, 300_000);
        assert_eq!(judge(1_000_000, ALLOWED, slow), ClockSight::Unclear);
        assert_eq!(slow.ahead_us(ALLOWED), None);
        let quick = reading(300_000, 1_300_000, 300_001);
        assert_eq!(judge(1_000_000, ALLOWED, quick), ClockSight::Steady);
        assert_eq!(quick.ahead_us(ALLOWED), Some(999_999));
    }

    #[test]
    fn a_jump_is_seen_however_long_the_reading_took() {
        assert_eq!(
            judge(1_000_000, ALLOWED, reading(0, 2_000_000, 300_000)),
            ClockSight::Jumped
        );
        assert_eq!(
            judge(1_000_000, ALLOWED, reading(0, 500_000, 300_000)),
            ClockSight::Jumped
        );
    }

    #[test]
    fn no_reading_overflows() {
        let far = reading(0, u64::MAX, u64::MAX);
        assert_ne!(judge(i64::MIN, ALLOWED, far), ClockSight::Steady);
        assert_eq!(
            reading(u64::MAX, 0, u64::MAX).ahead_us(ALLOWED),
            Some(-i64::MAX)
        );
    }
}
