//! Requests whose effect must come once only, under names by which every server knows them again.

use serde::{Deserialize, Serialize};

/// Names one change that a client asks for. Whoever makes the change keeps the name with it, so that a repeat is
/// answered and not carried out again, also by a server that was started anew, and by another one.
///
/// Clients send their requests in series, and the next of a series only when they have seen what became of the last one.
/// So only the last of a series is ever asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// The series; no other one has that name, at no server.
    pub series: [u8; RequestId::SERIES_BYTES],
    /// Its place in the series. Numbers go up by one and start again at zero behind the largest.
    pub number: u32,
    /// Which of the changes that the request asks for.
    pub part: u32,
    /// Of everything that was asked, so that a different request with the same name is not taken for a repeat.
    pub digest: u64,
    /// Whether the request is to be answered only if it was carried out, and refused with
    /// [`crate::Error::NotCarriedOut`] otherwise.
    pub repeat_only: bool,
}

impl RequestId {
    /// Length of the name of a series.
    pub const SERIES_BYTES: usize = 20;

    /// Whether `number` comes behind `other` in a series, the numbers of which start again at zero.
    #[must_use]
    pub fn is_later(number: u32, other: u32) -> bool {
        let ahead = number.wrapping_sub(other);
        ahead != 0 && ahead < 1 << 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_round() {
        assert!(RequestId::is_later(8, 7));
        assert!(!RequestId::is_later(7, 7));
        assert!(!RequestId::is_later(7, 8));
        assert!(RequestId::is_later(2, u32::MAX));
        assert!(!RequestId::is_later(u32::MAX, 2));
    }
}
