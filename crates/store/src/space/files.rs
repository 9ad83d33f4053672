//! How many files the file system below has space for. Some file systems, ext4 among them, are made for a fixed number; each
//! regular file that was ever written has one there, so clients who make small files use them up long before the bytes.
//!
//! What must never enter: how many bytes there are.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a look at the file system counts when there was plenty of space.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// This many are left to the embedded store and to what lies beside the store.
const KEPT: u64 = 512;
/// And at most one part in this many of all that there may be.
const KEPT_PART: u64 = 16;
/// What the embedded store may need to write out what memory holds, to merge tables, and to begin a journal.
const WRITING_OUT: u64 = 32;

/// What somebody wants a file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The data of a file of clients.
    Data,
    /// The embedded store.
    Rows,
}

/// What was seen of them at a moment.
#[derive(Debug)]
pub(super) struct Look {
    at: Instant,
    all: u64,
    /// How many there were, less those that were taken since.
    left: u64,
}

impl Look {
    /// Now; nothing where it cannot be found out.
    pub(super) fn at(directory: impl AsFd) -> Option<Look> {
        let below = rustix::fs::fstatvfs(directory).ok()?;
        Some(Look {
            at: Instant::now(),
            all: below.f_files,
            left: match below.f_files {
                // Some make files as long as there are bytes, and say that there are none.
                0 => u64::MAX,
                _ => below.f_favail,
            },
        })
    }

    /// Whether there is one to be had.
    pub(super) fn has(&self, purpose: Purpose) -> bool {
        self.left > kept(self.all, purpose)
    }

    /// Takes one for data, if this was a moment ago and there were plenty: then it need not be looked again. Says whether it did.
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
            // However slow this is.
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
