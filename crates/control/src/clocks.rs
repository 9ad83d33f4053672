//! Two clocks that show together what one of them cannot see.
//!
//! The clock of leases (on Linux `CLOCK_BOOTTIME`) goes on while a machine is suspended. It does not see that a virtual machine
//! was paused or restored from a snapshot. The time of day is set anew after that, by the hypervisor's agent or by a
//! daemon. Both clocks are slewed together, so that the distance between them changes only when the time of day is set.
//!
//! What must never enter: reading a clock.

use crate::moment::Moment;
use std::time::Duration;

/// The time of day, and what the clock of leases showed before and after that was read: a process may lose its
/// processor between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The clock of leases, before.
    pub before: Moment,
    /// The time of day, in microseconds since 1970.
    pub time_of_day_us: u64,
    /// The clock of leases, after.
    pub after: Moment,
}

/// What a reading says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSight {
    /// The clocks are as far apart as before.
    Steady,
    /// One of them has jumped against the other.
    Jumped,
    /// The reading took so long that nobody can tell. It has to be taken again.
    Unclear,
}

impl ClockReading {
    /// The least and the most by which the time of day may have been ahead, in microseconds.
    fn bounds_us(self) -> (i64, i64) {
        let signed = |micros: u64| i64::try_from(micros).unwrap_or(i64::MAX);
        let time_of_day = signed(self.time_of_day_us);
        let least = time_of_day.saturating_sub(signed(self.after.0));
        (least, time_of_day.saturating_sub(signed(self.before.0)))
    }

    /// By how much the time of day is ahead of the clock of leases, in microseconds; `None` when the reading took so
    /// long that this is known less well than to a quarter of what is `allowed`.
    #[must_use]
    pub fn ahead_us(self, allowed: Duration) -> Option<i64> {
        let (least, most) = self.bounds_us();
        let known = most.saturating_sub(least) <= micros(allowed) / 4;
        known.then_some(least)
    }
}

/// What a reading says of clocks that were apart by `ahead_us`, if they may drift apart by so much.
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

/// As many readings as are taken at most until one of them is clear: a process may lose its processor between the readings of the two
/// clocks several times.
pub fn readings(read: impl Fn() -> ClockReading) -> impl Iterator<Item = ClockReading> {
    (0..16).map(move |_| read())
}

/// The time on the clock of leases, if the clocks are still apart by `ahead_us`, give or take what is `allowed`. `None`: one of them has
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
