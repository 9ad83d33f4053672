//! Reserves numbers of descriptors, so that code that cannot wait for one always finds one.
//!
//! A process has descriptors with numbers below its limit, and each open gets the lowest free number. The
//! numbers below [`low`] are reserved for code that must not fail: the metadata store, which cannot retry to write a
//! table or to begin a journal. [`above`] moves connections and data files, which may be many, to higher numbers. So
//! reserved numbers are always left, however many of those are open, also if the limit is lowered while the process runs.
//!
//! What must never enter: what a descriptor stands for.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

/// The maximum number of reserved descriptors.
const LOW: RawFd = 256;

/// The reserved numbers are at most one part in this number of all.
const PART: u64 = 4;

/// Numbers from this on are for general use. The value is fixed at the first call.
#[must_use]
pub fn low() -> RawFd {
    static NUMBERS: OnceLock<RawFd> = OnceLock::new();
    *NUMBERS.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile).current;
        let part = limit.map_or(LOW, |limit| RawFd::try_from(limit / PART).unwrap_or(LOW));
        part.min(LOW)
    })
}

/// Moves a new descriptor out of the reserved numbers. If the limit was lowered to these, there are no others, and it stays.
///
/// # Errors
/// As for an open: no other number is free.
pub fn above<D: AsFd + AsRawFd + From<OwnedFd>>(opened: D) -> io::Result<D> {
    if opened.as_raw_fd() >= low() {
        return Ok(opened);
    }
    match fcntl_dupfd_cloexec(&opened, low()) {
        Ok(moved) => Ok(D::from(moved)),
        Err(Errno::INVAL) => Ok(opened),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether this many descriptors are available at once now: tested with an open one.
#[must_use]
pub fn are_left(count: usize, open: &File) -> bool {
    let others: io::Result<Vec<File>> = (0..count).map(|_| open.try_clone()).collect();
    others.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_stays_the_same_file_and_leaves_a_low_number() {
        let moved = above(File::open("/dev/null").unwrap()).unwrap();
        let number = moved.as_raw_fd();
        assert!(number >= low());
        assert!(are_left(2, &moved));
        assert_eq!(above(moved).unwrap().as_raw_fd(), number);
    }
}
