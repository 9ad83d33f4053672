//! How far the times of day of two servers are apart, measured by questions and answers.
//!
//! The way there and the way back need not take equally long, and an answer may have waited. So a measurement is as exact as half
//! of its round trip, and of several the one with the shortest round trip is believed, as NTP does (RFC 5905, section 10).
//!
//! What must never enter: reading a clock.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// At most this many answers are kept of one server.
const KEPT: usize = 8;

/// How far the time of day of another server differs from the own one, as one question and its answer show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockDifference {
    /// By how much the other one is ahead, in microseconds, if the way there takes as long as the way back.
    pub ahead_us: i64,
    /// It may be as much more or less, in microseconds: half the round trip.
    pub within_us: u64,
}

impl ClockDifference {
    /// What an answer shows that says `theirs_us`: the question was asked at `asked`, and it is `now` on the clock of leases and `own_us` by
    /// the own time of day. Times of day are in microseconds since 1970.
    #[must_use]
    pub fn shown(asked: Moment, now: Moment, own_us: i64, theirs_us: i64) -> ClockDifference {
        let within_us = now.0.saturating_sub(asked.0).div_ceil(2);
        let answered_us = own_us.saturating_sub_unsigned(within_us);
        ClockDifference {
            ahead_us: theirs_us.saturating_sub(answered_us),
            within_us,
        }
    }

    /// They differ by at least so much, in microseconds.
    #[must_use]
    pub fn least_us(self) -> u64 {
        self.ahead_us.unsigned_abs().saturating_sub(self.within_us)
    }
}

/// The latest measurements of one server's time of day.
#[derive(Clone, Debug, Default)]
pub struct ClockDifferences(VecDeque<ClockDifference>);

impl ClockDifferences {
    /// There is another measurement.
    pub fn note(&mut self, difference: ClockDifference) {
        self.0.truncate(KEPT - 1);
        self.0.push_front(difference);
    }

    /// The most exact one; of several the latest.
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
        // The clocks are equal, and the answer has waited for four seconds.
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
        // The clock was set meanwhile.
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
