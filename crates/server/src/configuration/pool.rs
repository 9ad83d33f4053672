//! `[pool]`: how the metadata servers of a pool deal with data servers and directories.
//!
//! What must never enter: what the settings do, and the pool's own files.

use std::time::Duration;

use store::CommitMode;

use super::Configuration;
use super::section::Section;

const SECOND: Duration = Duration::from_secs(1);

/// How a pool's metadata servers work. Elsewhere none of it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfiguration {
    /// How long handles at data servers are sealed with one key, at the first one.
    pub key_life: Duration,
    /// Whether directories that its clients make live at this server, if it has joined.
    pub makes_directories: bool,
}

impl Default for PoolConfiguration {
    fn default() -> PoolConfiguration {
        PoolConfiguration {
            key_life: Duration::from_hours(24),
            makes_directories: false,
        }
    }
}

pub(super) fn read(section: &Section<'_>, all: &mut Configuration) {
    // Longer than anything takes that is done with one handle, and not for ever.
    let life = section.duration("key_life", 10 * SECOND..=Duration::from_hours(30 * 24));
    all.pool.key_life = life.unwrap_or(all.pool.key_life);
    let makes_directories = section.switch("makes_directories").unwrap_or(false);
    if makes_directories && all.commit == CommitMode::Async {
        section.complain(
            section.place(),
            "`makes_directories` is true, and `commit` is \"async\"",
            "leave `commit = \"async\"` out: a name at the first metadata server could outlive its directory here",
        );
    }
    all.pool.makes_directories = makes_directories;
}
