//! Which numbers of descriptors are for whom, so that those who cannot wait for one always find one.
//!
//! A process has descriptors with numbers below its limit, and each open gets the lowest that is free. The
//! numbers below [`low`] are left to those who must not fail: the metadata of a store, which cannot try again to write a
//! table or to begin a journal. What there may be many of, connections and data files, is moved above them by [`above`]; so
//! the rest always have some, however many there are of these, and also if the limit is lowered while the process runs.
//!
//! What must never enter: what a descriptor stands for.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

/// The most numbers that are left to those who must not fail.
const LOW: RawFd = 256;

/// And the part of all numbers that these are at most.
const PART: u64 = 4;

/// Numbers from this on are for everybody. It stays what it is when it is first asked for.
#[must_use]
pub fn low() -> RawFd {
    static NUMBERS: OnceLock<RawFd> = OnceLock::new();
    *NUMBERS.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile).current;
        let part = limit.map_or(LOW, |limit| RawFd::try_from(limit / PART).unwrap_or(LOW));
        part.min(LOW)
    })
}

/// Moves what was just opened out of the low numbers. Where the limit has been lowered to these, there are no others, and it stays.
///
/// # Errors
/// As opening one more: no other number is free.
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

/// Whether this many descriptors could be had at once now: tried with one that is open.
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
