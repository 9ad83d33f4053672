//! Requests whose effect must come once only, under names by which every server knows them again.

use serde::{Deserialize, Serialize};

/// The beginning that the names of some series have in common, because these begin and end together: a session of NFS.
pub type RequestGroup = [u8; RequestId::GROUP_BYTES];

/// Names one change that a client asks for. The server that makes the change keeps the name with it, so that a
/// repeat is answered and not carried out again, also by a server that was started anew, and by another one.
///
/// Clients send their requests in series, and the next of a series only when they have seen what became of the last one.
/// So only the last of a series is ever asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// The series; no other one has that name, at no server.
    pub series: [u8; RequestId::SERIES_BYTES],
    /// Its place in the series. The lower half is the number that the client says, which goes up by one and starts again
    /// at zero behind the largest; the upper half says how often it has. A mere repeat does not know the upper half, and
    /// has zero there.
    pub number: u64,
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
    /// Length of the name of a [`RequestGroup`].
    pub const GROUP_BYTES: usize = 16;

    /// Whether two of a series have the same number, as far as clients say it.
    #[must_use]
    pub fn is_same_number(number: u64, other: u64) -> bool {
        number & u64::from(u32::MAX) == other & u64::from(u32::MAX)
    }

    /// Whether both name the same change, whichever of them is a mere repeat.
    #[must_use]
    pub fn is_repeat_of(&self, other: &RequestId) -> bool {
        self.series == other.series
            && RequestId::is_same_number(self.number, other.number)
            && (self.part, self.digest) == (other.part, other.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_has_all_but_how_often_the_numbers_have_started_again() {
        let request = RequestId {
            series: [7; RequestId::SERIES_BYTES],
            number: (3 << 32) | 5,
            part: 1,
            digest: 9,
            repeat_only: false,
        };
        let repeat = RequestId {
            number: 5,
            repeat_only: true,
            ..request
        };
        assert!(repeat.is_repeat_of(&request));
        let series = [8; RequestId::SERIES_BYTES];
        for other in [
            RequestId { series, ..repeat },
            RequestId {
                number: 6,
                ..repeat
            },
            RequestId { part: 2, ..repeat },
            RequestId {
                digest: 8,
                ..repeat
            },
        ] {
            assert!(!other.is_repeat_of(&request));
        }
    }
}
