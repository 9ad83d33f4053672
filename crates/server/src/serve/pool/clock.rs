//! The clocks that measure leases within a pool (decision 12).
//!
//! They go on while the machine is suspended, but do not notice that a virtual machine stood still. The time of day shows this: it is set
//! again afterwards, and so jumps against these clocks. A server that holds leases then relies on none that it has or has asked for. A
//! server that grants leases stood still as well, and keeps its promises for longer.
//!
//! What must never enter: what is measured on them.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control::{ClockReading, Moment, readings, steady};
use pool::{LeaseClock, LeaseSettings};
use replica::{lease_time, read_clocks};

/// For a server that grants leases.
pub(super) fn of_leases() -> LeaseClock {
    Arc::new(lease_time)
}

/// For a server that holds leases, and how far it may rely on them: two jumps too small to be detected may happen during one lease.
pub(super) fn of_given_leases() -> (LeaseSettings, LeaseClock) {
    let given = LeaseSettings::default();
    let watched = Watched::new(given, read_clocks);
    let relied_upon = LeaseSettings {
        // The two jumps, and the effect of a slow clock on them.
        unseen: 3 * watched.allowed,
        ..given
    };
    (relied_upon, Arc::new(move || watched.now(read_clocks)))
}

/// A clock that advances by a whole lease when the time of day has jumped.
struct Watched {
    allowed: Duration,
    lease_us: u64,
    /// How far it is ahead of the machine's clock. Stored before `ahead_us`, and read after it.
    skipped_us: AtomicU64,
    /// How far the time of day was ahead of the machine's clock.
    ahead_us: AtomicI64,
    /// Held by the thread that handles a jump.
    jumping: Mutex<()>,
}

impl Watched {
    fn new(lease: LeaseSettings, read: impl Fn() -> ClockReading) -> Watched {
        let watched = Watched {
            // The same fraction as for a site lease.
            allowed: lease.length / 50,
            lease_us: lease.granted_until(Moment(0)).0,
            skipped_us: AtomicU64::new(0),
            ahead_us: AtomicI64::new(0),
            jumping: Mutex::new(()),
        };
        watched.set_ahead(&read);
        watched
    }

    /// Updates the distance of the clocks. Returns whether it is known now.
    fn set_ahead(&self, read: impl Fn() -> ClockReading) -> bool {
        let ahead_us = readings(read).find_map(|reading| reading.ahead_us(self.allowed));
        if let Some(ahead_us) = ahead_us {
            self.ahead_us.store(ahead_us, Ordering::Release);
        }
        ahead_us.is_some()
    }

    fn now(&self, read: impl Fn() -> ClockReading) -> Moment {
        match self.steady(&read) {
            Some(now) => now,
            None => self.jump(read),
        }
    }

    /// The time, if the distance of the clocks has not changed.
    fn steady(&self, read: impl Fn() -> ClockReading) -> Option<Moment> {
        let ahead_us = self.ahead_us.load(Ordering::Acquire);
        let now = steady(ahead_us, self.allowed, read)?;
        Some(self.ahead_of(now))
    }

    fn ahead_of(&self, now: Moment) -> Moment {
        let skipped_us = self.skipped_us.load(Ordering::Acquire);
        Moment(now.0.saturating_add(skipped_us))
    }

    /// Ends all current leases, and those that were asked for before.
    fn jump(&self, read: impl Fn() -> ClockReading) -> Moment {
        let _alone = self.jumping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = self.steady(&read) {
            // Another thread has handled it.
            return now;
        }
        self.skipped_us.fetch_add(self.lease_us, Ordering::AcqRel);
        let is_known = self.set_ahead(&read);
        tracing::warn!(
            is_known,
            "the time of day has jumped: it was set, or this machine stood still; \
             nothing counts of what was leased to this server before"
        );
        self.ahead_of(read().after)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Clocks that show this time, with a time of day that is ahead by this much.
    fn at(time_us: u64, ahead_us: u64) -> impl Fn() -> ClockReading {
        move || ClockReading {
            before: Moment(time_us),
            time_of_day_us: time_us + ahead_us,
            after: Moment(time_us),
        }
    }

    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_lease_is_over_when_the_time_of_day_has_jumped_in_either_direction() {
        let lease = LeaseSettings::default();
        let watched = Watched::new(lease, at(0, 100 * SECOND));
        let asked = watched.now(at(SECOND, 100 * SECOND));
        assert_eq!(asked, Moment(SECOND));
        let until = lease.relied_upon_until(asked);
        for (number, ahead) in [(1, 160 * SECOND), (2, 99 * SECOND)] {
            let after = watched.now(at(SECOND, ahead));
            assert!(after >= until);
            assert_eq!(watched.now(at(2 * SECOND, ahead)).0, after.0 + SECOND);
            assert_eq!(after.0 - asked.0, number * watched.lease_us);
        }
    }

    #[test]
    fn small_steps_and_interrupted_readings_are_no_jumps() {
        let watched = Watched::new(LeaseSettings::default(), at(0, SECOND));
        assert_eq!(watched.now(at(SECOND, SECOND + 50_000)), Moment(SECOND));
        let readings = Cell::new(0);
        let interrupted = || {
            readings.set(readings.get() + 1);
            let mut reading = at(2 * SECOND, SECOND)();
            if readings.get() == 1 {
                reading.time_of_day_us += 300_000;
                reading.after = Moment(reading.after.0 + 600_000);
            }
            reading
        };
        assert_eq!(watched.now(interrupted), Moment(2 * SECOND));
        assert_eq!(readings.get(), 2);
    }

    #[test]
    fn what_is_relied_upon_ends_before_what_is_promised_for_whatever_clocks_do_unseen() {
        let (relied_upon, _) = of_given_leases();
        let given = LeaseSettings::default();
        let (relied_upon, promised) = (
            relied_upon.relied_upon_until(Moment(0)).0,
            given.granted_until(Moment(0)).0,
        );
        let unseen = 2 * (given.length / 50).as_micros() as u64;
        let slow = |true_us: u64| true_us * (1_000_000 - u64::from(given.drift_ppm)) / 1_000_000;
        // One clock as slow as allowed, the other as fast.
        assert!(relied_upon + unseen <= slow(given.length.as_micros() as u64));
        assert!(promised > relied_upon + unseen);
    }
}
