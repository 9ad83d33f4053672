//! The lease under which a data server answers for a home (rule 4), and a metadata server keeps copies of another (rule 13).
//!
//! It counts from the asking at the data server, and from the giving at the home, so a data server that is cut off stops by itself
//! before the home acts as if it had stopped.

use control::Moment;
use std::sync::Arc;
use std::time::Duration;

/// Shows the time on the clock on which a server counts leases. It goes on while the machine is suspended (decision 0012): otherwise a server
/// that wakes up would take a lease for its own that has run out.
pub type LeaseClock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// How long leases last, and how far clocks may be apart in speed.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSettings {
    /// How long a lease lasts. Has to be the same at all servers of a pool.
    pub length: Duration,
    /// How much faster or slower than true time a clock may run, in millionths.
    pub drift_ppm: u32,
    /// How much more time may pass while one lasts than the clock shows of the server that relies on it: its machine may have stood still,
    /// too shortly to be noticed. Taken off whatever the server counts. Nothing at a server that gives leases.
    pub unseen: Duration,
}

impl Default for LeaseSettings {
    fn default() -> LeaseSettings {
        LeaseSettings {
            length: Duration::from_secs(3),
            drift_ppm: control::DRIFT_PPM,
            unseen: Duration::ZERO,
        }
    }
}

impl LeaseSettings {
    /// Until when a data server may rely on a lease that it asked for at `asked`.
    #[must_use]
    pub fn relied_upon_until(&self, asked: Moment) -> Moment {
        self.counted_from(asked, self.length)
    }

    /// The end of what lasts so long, by any clock, from a moment that is no later than its beginning: of a lease, or of what is shorter.
    pub(crate) fn counted_from(&self, asked: Moment, length: Duration) -> Moment {
        let seen = length.saturating_sub(self.unseen);
        let drift = control::drift(seen, self.drift_ppm);
        asked.after(seen.saturating_sub(drift))
    }

    /// How long clients may be served from now on where the home may speak for its files for `left` more, by its own clock.
    pub(crate) fn for_clients(&self, left: Duration) -> Duration {
        // More makes no difference.
        let left = left.min(2 * self.length);
        let drift = control::drift(left, self.drift_ppm);
        left.saturating_sub(drift).min(self.length)
    }

    /// From when on no data server relies on a lease that was given at `given` or before.
    #[must_use]
    pub fn granted_until(&self, given: Moment) -> Moment {
        given.after(self.length + self.drift())
    }

    fn drift(&self) -> Duration {
        control::drift(self.length, self.drift_ppm)
    }
}
