//! `[pool]`: how the metadata servers of a pool manage data servers and directories.
//!
//! What must never enter: the effect of the settings, and the pool's own files.

use std::time::Duration;

use store::CommitMode;

use super::Configuration;
use super::section::Section;

const SECOND: Duration = Duration::from_secs(1);

/// The behaviour of a pool's metadata servers. On other servers it has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfiguration {
    /// On the first metadata server: how long one key seals handles for data servers.
    pub key_life: Duration,
    /// On a joined metadata server: whether new directories of its clients have their home here.
    pub makes_directories: bool,
    /// Files from this many bytes on are read and written by a metadata server at the data servers, if they live at another one.
    pub direct_size: u64,
}

impl Default for PoolConfiguration {
    fn default() -> PoolConfiguration {
        PoolConfiguration {
            key_life: Duration::from_hours(24),
            makes_directories: false,
            direct_size: 1 << 20,
        }
    }
}

pub(super) fn read(section: &Section<'_>, all: &mut Configuration) {
    // Longer than any operation with one handle, and limited.
    let life = section.duration("key_life", 10 * SECOND..=Duration::from_hours(30 * 24));
    all.pool.key_life = life.unwrap_or(all.pool.key_life);
    let direct_size = section.size("direct_size", 0..=1 << 60);
    all.pool.direct_size = direct_size.unwrap_or(all.pool.direct_size);
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
