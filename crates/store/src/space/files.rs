//! How many files the file system below has space for. Some file systems, ext4 among them, are made for a fixed number; each
//! regular file that was ever written has one there, so clients who make small files use them up long before the bytes.
//!
//! What must never enter: how many bytes there are.

use std::os::fd::AsFd;

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

/// Whether there is one to be had.
pub(super) fn is_left(directory: impl AsFd, purpose: Purpose) -> bool {
    let Ok(below) = rustix::fs::fstatvfs(directory) else {
        // The caller that makes one is told.
        return true;
    };
    // Some make files as long as there are bytes, and say that there are none.
    below.f_files == 0 || below.f_favail > kept(below.f_files, purpose)
}

fn kept(all: u64, purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Data => KEPT.min(all / KEPT_PART),
        Purpose::Rows => WRITING_OUT.min(all / KEPT_PART / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_files_left_when_data_has_none() {
        for all in [100, 1200, 1 << 20] {
            assert!(kept(all, Purpose::Rows) < kept(all, Purpose::Data), "{all}");
            assert!(kept(all, Purpose::Data) < all / 8);
        }
    }
}
