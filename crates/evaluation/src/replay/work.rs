//! The amount of work of a replay.

use std::ops::{AddAssign, Sub};

/// Counts over everything that a replay has done so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Requests to the server, repeated ones included.
    pub(crate) requests: u64,
    /// How often the server asked to retry later.
    pub(crate) delays: u64,
    /// Bytes in WRITE requests.
    pub(crate) written: u64,
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            delays: self.delays - earlier.delays,
            written: self.written - earlier.written,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, later: Self) {
        self.requests += later.requests;
        self.delays += later.delays;
        self.written += later.written;
    }
}
