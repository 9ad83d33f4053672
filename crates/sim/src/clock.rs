//! The clocks of one machine: one that leases are counted on, and the time of day.
//!
//! The first runs too fast or too slow, begins again when the machine is started anew, and does not see that a virtual
//! machine stood still. The time of day is set when that goes on.

use control::{ClockReading, Moment};
use std::time::Duration;

/// The time of day of a machine that has never stood still is so much ahead of its other clock.
const AHEAD_US: u64 = 1_000_000_000;

/// What a machine has to tell the time by.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// How much faster than true time it runs, in millionths.
    pub ppm: i64,
    /// When, in true time, it showed nothing yet.
    begun: Moment,
    /// Since when, and until when, the machine stands still, in true time.
    still: Option<(Moment, Moment)>,
    /// By how much the time of day is ahead.
    ahead_us: u64,
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

    /// What it shows.
    pub(crate) fn local(&self, now: Moment) -> Moment {
        let now = self.still.map_or(now, |(since, _)| since.min(now));
        let passed = i128::from(now.0.saturating_sub(self.begun.0));
        let drift = passed * i128::from(self.ppm) / 1_000_000;
        Moment(u64::try_from(passed + drift).unwrap_or(0))
    }

    /// When it will show this.
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

    /// The machine stands still from now on.
    pub(crate) fn stand_still(&mut self, now: Moment, long: Duration) {
        self.still = Some((now, now.after(long)));
    }

    /// Until when it stands still.
    pub(crate) fn still_until(&self) -> Option<Moment> {
        self.still.map(|(_, until)| until)
    }

    /// It goes on, and its time of day is set.
    pub(crate) fn go_on(&mut self) {
        if let Some((since, until)) = self.still.take() {
            let missed = until.0 - since.0;
            self.begun = Moment(self.begun.0 + missed);
            self.ahead_us += missed;
        }
    }
}
