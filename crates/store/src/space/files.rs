//! The number of files for which the file system below has space. Some file systems, for example ext4, have a fixed number. Each
//! regular file that was ever written uses one, so clients that create small files use them up long before the bytes.
//!
//! What must never enter: the number of bytes.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a look at the file system is valid if it found plenty of space.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The number of files reserved for the embedded store and for use outside the store.
const KEPT: u64 = 512;
/// The reserved part is at most one part in this number of all files.
const KEPT_PART: u64 = 16;
/// The number of files that the embedded store may need to write out memory, to merge tables, and to begin a journal.
const WRITING_OUT: u64 = 32;

/// The purpose of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The data of a client's file.
    Data,
    /// The embedded store.
    Rows,
}

/// The files that a look found.
#[derive(Debug)]
pub(super) struct Look {
    at: Instant,
    all: u64,
    /// The number of free files then, minus those used since.
    left: u64,
}

impl Look {
    /// Looks now; `None` if the number is unknown.
    pub(super) fn at(directory: impl AsFd) -> Option<Look> {
        let below = rustix::fs::fstatvfs(directory).ok()?;
        Some(Look {
            at: Instant::now(),
            all: below.f_files,
            left: match below.f_files {
                // Some file systems create files while there are bytes, and report a total of zero.
                0 => u64::MAX,
                _ => below.f_favail,
            },
        })
    }

    /// Whether there is a free file for this purpose.
    pub(super) fn has(&self, purpose: Purpose) -> bool {
        self.left > kept(self.all, purpose)
    }

    /// Uses one file for data without a new look, if this look is recent and found plenty. Returns whether it did.
    pub(super) fn take_one(&mut self) -> bool {
        let has_plenty = self.left / 2 > kept(self.all, Purpose::Data);
        let may_take = has_plenty && self.at.elapsed() < LOOK_AGAIN;
        self.left -= u64::from(may_take);
        may_take
    }
}

fn kept(all: u64, purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Data => KEPT.min(all / KEPT_PART),
        Purpose::Rows => WRITING_OUT.min(all / KEPT_PART / 2),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_look_counts_for_a_moment_and_where_there_are_plenty() {
        let look = |left| Look {
            // Valid even if the test is slow.
            at: Instant::now() + Duration::from_secs(3600),
            all: 1 << 20,
            left,
        };
        let mut plenty = look(2 * KEPT + 3);
        assert!(plenty.take_one() && plenty.take_one());
        assert!(
            !plenty.take_one(),
            "half of them could be somebody else's by now"
        );
        assert!(plenty.has(Purpose::Data));
        assert!(!look(KEPT).has(Purpose::Data) && look(KEPT).has(Purpose::Rows));
        let mut old = look(1 << 19);
        old.at = Instant::now() - LOOK_AGAIN;
        assert!(!old.take_one());
        let mut unbounded = Look {
            all: 0,
            ..look(u64::MAX)
        };
        assert!(unbounded.take_one());
    }

    #[test]
    fn rows_have_files_left_when_data_has_none() {
        for all in [100, 1200, 1 << 20] {
            assert!(kept(all, Purpose::Rows) < kept(all, Purpose::Data), "{all}");
            assert!(kept(all, Purpose::Data) < all / 8);
        }
    }
}
