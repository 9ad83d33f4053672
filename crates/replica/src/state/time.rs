//! The time of day, for people and for what is compared with their word.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, for people.
pub(crate) fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
