//! Time in the protocol core: a number that the caller supplies.
//!
//! The core never reads a clock, so the simulation can let hours pass in milliseconds and repeat them
//! exactly.

use std::time::Duration;

/// Microseconds of a monotonic clock whose origin the caller chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The moment `delay` later; saturates at the end of time instead of wrapping.
    #[must_use]
    pub fn after(self, delay: Duration) -> Moment {
        let microseconds = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        Moment(self.0.saturating_add(microseconds))
    }

    /// The moment `span` earlier; the origin if that would be before it.
    #[must_use]
    pub fn before(self, span: Duration) -> Moment {
        let microseconds = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Moment(self.0.saturating_sub(microseconds))
    }
}
