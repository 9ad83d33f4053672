//! `[pool]`: how the first metadata server of a pool deals with its data servers.
//!
//! What must never enter: what the settings do, and the pool's own files.

use std::time::Duration;

use super::Configuration;
use super::section::Section;

const SECOND: Duration = Duration::from_secs(1);

/// How a pool's first metadata server works. Elsewhere none of it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfiguration {
    /// How long handles at data servers are sealed with one key.
    pub key_life: Duration,
}

impl Default for PoolConfiguration {
    fn default() -> PoolConfiguration {
        PoolConfiguration {
            key_life: Duration::from_hours(24),
        }
    }
}

pub(super) fn read(section: &Section<'_>, all: &mut Configuration) {
    // Longer than anything takes that is done with one handle, and not for ever.
    let life = section.duration("key_life", 10 * SECOND..=Duration::from_hours(30 * 24));
    all.pool.key_life = life.unwrap_or(all.pool.key_life);
}
