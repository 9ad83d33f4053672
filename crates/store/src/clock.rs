//! The clock, which tests can replace, and the rule that keeps the times of objects in order.
//!
//! The clocks of servers differ, and a clock may be set back. Still, a time that a server sets by itself is later than
//! any time set before, as far as this copy knows: later than the last change of the object, and later than every
//! change of another replica that was applied here. Times ahead of the local clock by more than [`FOLLOWED_AHEAD_SECONDS`] are not
//! followed, because times would stay wrong for that long.
//!
//! This clock is used only for times that are written into objects. Durations are measured
//! with the monotonic clock of the process instead.

use std::time::{SystemTime, UNIX_EPOCH};

use vfs::Timestamp;

/// A time that a server sets is ahead of its own clock by at most this many seconds. A time further ahead is treated
/// as a mistake and not followed: times then go back to the local clock.
pub(crate) const FOLLOWED_AHEAD_SECONDS: i64 = 24 * 60 * 60;

/// The time of a change: the clock's time, or a tick after the current value if that is later.
pub(crate) fn later_than(stands: Timestamp, clock: Timestamp) -> Timestamp {
    let ahead = stands.seconds.saturating_sub(clock.seconds);
    if stands < clock || ahead > FOLLOWED_AHEAD_SECONDS {
        return clock;
    }
    match stands.nanoseconds {
        ..999_999_999 => Timestamp {
            seconds: stands.seconds,
            nanoseconds: stands.nanoseconds + 1,
        },
        _ => Timestamp {
            seconds: stands.seconds.saturating_add(1),
            nanoseconds: 0,
        },
    }
}

/// Tells the time that is written into objects.
pub trait Clock: Send + Sync + 'static {
    /// The time now, since 1970-01-01 00:00 UTC.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // The clock of a machine before 1970 is wrong anyway; its objects get 1970.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp {
            seconds,
            nanoseconds,
        }
    }

    #[test]
    fn a_time_is_the_clocks_or_a_tick_later_than_what_stands() {
        assert_eq!(later_than(at(5, 7), at(9, 0)), at(9, 0));
        assert_eq!(later_than(at(9, 0), at(9, 0)), at(9, 1));
        assert_eq!(later_than(at(9, 999_999_999), at(5, 0)), at(10, 0));
    }

    #[test]
    fn a_time_further_ahead_than_the_bound_is_not_followed() {
        let clock = at(1_000, 0);
        let bound = 1_000 + FOLLOWED_AHEAD_SECONDS;
        assert_eq!(later_than(at(bound, 0), clock), at(bound, 1));
        assert_eq!(later_than(at(bound + 1, 0), clock), clock);
        assert_eq!(later_than(at(i64::MAX, 999_999_999), clock), clock);
    }
}
