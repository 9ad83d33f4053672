//! The clocks of one machine: the clock that counts leases, and the time of day.
//!
//! The first runs too fast or too slow, and begins again when the machine is restarted. It does not see that a virtual
//! machine stood still; it sees that a machine was suspended. The time of day is set when a virtual machine continues, and
//! at arbitrary times.

use control::{ClockReading, Moment};
use std::time::Duration;

/// How far the time of day is ahead of the other clock if the machine has never stood still.
const AHEAD_US: u64 = 1_000_000_000;

/// The clocks of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// How much faster than true time it runs, in millionths.
    pub ppm: i64,
    /// The true time at which it showed zero.
    begun: Moment,
    still: Option<Still>,
    /// By how much the time of day is ahead.
    ahead_us: u64,
}

/// A pause of a machine, in true time.
#[derive(Clone, Copy, Debug)]
struct Still {
    since: Moment,
    until: Moment,
    /// Whether its clock sees the pause afterwards.
    seen: bool,
}

impl Clock {
    pub(crate) fn new(ppm: i64, begun: Moment) -> Clock {
        Clock {
            ppm,
            begun,
            still: None,
            ahead_us: AHEAD_US,
        }
    }

    /// The time that it shows.
    pub(crate) fn local(&self, now: Moment) -> Moment {
        let now = self.still.map_or(now, |still| still.since.min(now));
        let passed = i128::from(now.0.saturating_sub(self.begun.0));
        let drift = passed * i128::from(self.ppm) / 1_000_000;
        Moment(u64::try_from(passed + drift).unwrap_or(0))
    }

    /// When it will show this time.
    pub(crate) fn global(&self, local: Moment) -> Moment {
        let speed = u128::from((1_000_000 + self.ppm).unsigned_abs());
        let passed = (u128::from(local.0) * 1_000_000).div_ceil(speed);
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        Moment(self.begun.0.saturating_add(passed).saturating_add(1))
    }

    /// Both clocks, read at once.
    pub(crate) fn reading(&self, now: Moment) -> ClockReading {
        let local = self.local(now);
        ClockReading {
            before: local,
            time_of_day_us: local.0 + self.ahead_us,
            after: local,
        }
    }

    /// The machine stands still from now on; its clock goes on if that is `seen`.
    pub(crate) fn stand_still(&mut self, now: Moment, long: Duration, seen: bool) {
        let (since, until) = (now, now.after(long));
        self.still = Some(Still { since, until, seen });
    }

    /// The time of day is set forward or back, by a number of microseconds.
    pub(crate) fn set(&mut self, by_us: i64) {
        self.ahead_us = self.ahead_us.saturating_add_signed(by_us);
    }

    /// The end of the pause.
    pub(crate) fn still_until(&self) -> Option<Moment> {
        self.still.map(|still| still.until)
    }

    /// The machine continues; its time of day is set if the other clock has not seen the pause.
    pub(crate) fn go_on(&mut self) {
        if let Some(still) = self.still.take().filter(|still| !still.seen) {
            let missed = still.until.0 - still.since.0;
            self.begun = Moment(self.begun.0 + missed);
            self.ahead_us += missed;
        }
    }
}
