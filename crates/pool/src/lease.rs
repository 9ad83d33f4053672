//! The lease under which a data server answers for a home (rule 4), and a metadata server keeps copies of another one's rows and names (rule 13).
//!
//! It counts from the request at the data server, and from the grant at the home. So a data server without a connection stops by itself
//! before the home assumes that it has stopped.

use control::Moment;
use std::sync::Arc;
use std::time::Duration;

/// The clock on which a server counts leases. It runs while the machine is suspended (decision 0012): otherwise a server that wakes up
/// would rely on a lease that has run out.
pub type LeaseClock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// How long leases last, and how much the speed of clocks may differ.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSettings {
    /// How long a lease lasts. Must be the same at all servers of a pool.
    pub length: Duration,
    /// How much faster or slower than true time a clock may run, in millionths.
    pub drift_ppm: u32,
    /// How much more time may pass during a lease than the clock of the server that relies on it shows: its machine may have stood still, too
    /// briefly to be noticed. It is subtracted from every time that the server counts. Zero at a server that gives leases.
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

    /// The end of a lease, or of a shorter time, by any clock, counted from a moment no later than its beginning.
    pub(crate) fn counted_from(&self, asked: Moment, length: Duration) -> Moment {
        let seen = length.saturating_sub(self.unseen);
        let drift = control::drift(seen, self.drift_ppm);
        asked.after(seen.saturating_sub(drift))
    }

    /// How long clients may be served from now on if the home may decide alone about its files for `left` more, by its own clock.
    pub(crate) fn for_clients(&self, left: Duration) -> Duration {
        // A longer time gives the same result.
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
