//! The time of day, for display and for comparison with times that people set.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, for display.
pub(crate) fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
