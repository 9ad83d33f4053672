//! The difference between the times of day of two servers, measured with requests and answers.
//!
//! The two directions may take different times, and an answer may have waited. So the error of a measurement is up to half of its round trip. Of several
//! measurements, the one with the shortest round trip is used, as in NTP (RFC 5905, section 10).
//!
//! What must never enter: reading a clock.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// The number of answers that are kept for each server.
const KEPT: usize = 8;

/// The difference between the time of day of another server and our own, from one request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockDifference {
    /// How far the other clock is ahead, in microseconds, if both directions take the same time.
    pub ahead_us: i64,
    /// The maximum error in either direction, in microseconds: half the round trip.
    pub within_us: u64,
}

impl ClockDifference {
    /// The result of an answer that reports `theirs_us`. The request was sent at `asked`. Now it is `now` on the clock
    /// of leases and `own_us` by our own time of day. Times of day are in microseconds since 1970.
    #[must_use]
    pub fn shown(asked: Moment, now: Moment, own_us: i64, theirs_us: i64) -> ClockDifference {
        let within_us = now.0.saturating_sub(asked.0).div_ceil(2);
        let answered_us = own_us.saturating_sub_unsigned(within_us);
        ClockDifference {
            ahead_us: theirs_us.saturating_sub(answered_us),
            within_us,
        }
    }

    /// The minimum difference, in microseconds.
    #[must_use]
    pub fn least_us(self) -> u64 {
        self.ahead_us.unsigned_abs().saturating_sub(self.within_us)
    }
}

/// The latest measurements of one server's time of day.
#[derive(Clone, Debug, Default)]
pub struct ClockDifferences(VecDeque<ClockDifference>);

impl ClockDifferences {
    /// Adds a measurement.
    pub fn note(&mut self, difference: ClockDifference) {
        self.0.truncate(KEPT - 1);
        self.0.push_front(difference);
    }

    /// The most exact measurement; of several the latest.
    #[must_use]
    pub fn best(&self) -> Option<ClockDifference> {
        let differences = self.0.iter();
        differences
            .min_by_key(|difference| difference.within_us)
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn measured(round_trip_us: u64, ahead_us: i64) -> ClockDifference {
        let (asked, answered) = (Moment(5_000_000), 1_000 * SECOND);
        let own_us = answered.saturating_add_unsigned(round_trip_us / 2);
        let now = Moment(asked.0 + round_trip_us);
        ClockDifference::shown(asked, now, own_us, answered.saturating_add(ahead_us))
    }

    #[test]
    fn half_the_round_trip_is_taken_off() {
        for ahead_us in [0, 3 * SECOND, -3600 * SECOND] {
            let difference = measured(200_000, ahead_us);
            assert_eq!(difference.ahead_us, ahead_us);
            let least_us = ahead_us.unsigned_abs().saturating_sub(100_000);
            assert_eq!(difference.least_us(), least_us);
        }
    }

    #[test]
    fn an_answer_that_was_late_shows_nothing_for_certain() {
        // The clocks are equal, and the answer was delayed by four seconds.
        let late = ClockDifference::shown(Moment(0), Moment(4_000_000), 14 * SECOND, 10 * SECOND);
        assert_eq!((late.ahead_us, late.least_us()), (-2 * SECOND, 0));
    }

    #[test]
    fn the_shortest_of_the_latest_round_trips_is_believed() {
        let mut differences = ClockDifferences::default();
        assert_eq!(differences.best(), None);
        differences.note(measured(1_000, 2 * SECOND));
        for _ in 1..KEPT {
            differences.note(measured(90_000, 0));
            assert_eq!(differences.best(), Some(measured(1_000, 2 * SECOND)));
        }
        // The clock was set in the meantime.
        differences.note(measured(90_000, 7));
        assert_eq!(differences.best(), Some(measured(90_000, 7)));
        assert_eq!(differences.0.len(), KEPT);
    }

    #[test]
    fn no_answer_overflows() {
        for theirs_us in [i64::MIN, i64::MAX] {
            for now in [Moment(0), Moment(u64::MAX)] {
                let shown = ClockDifference::shown(Moment(9), now, i64::MIN, theirs_us);
                assert!(shown.least_us() <= shown.ahead_us.unsigned_abs());
            }
        }
    }
}
