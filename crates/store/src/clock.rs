//! Where times come from, so that tests decide what time it is.
//!
//! Only what is written into objects asks this clock. How long to wait for something is measured
//! with the monotonic clock of the process and never enters here.

use std::time::{SystemTime, UNIX_EPOCH};

use vfs::Timestamp;

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
        // A machine set to before 1970 is wrong anyway; its objects then carry 1970.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }
}
