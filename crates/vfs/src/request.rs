//! Names of requests that must take effect only once; every server recognises a repeat by its name.

use serde::{Deserialize, Serialize};

/// The common prefix of the names of some series that begin and end together: a session of NFS.
pub type RequestGroup = [u8; RequestId::GROUP_BYTES];

/// The name of one change that a client requests. The server that makes the change stores the name with it, so that a
/// repeat is answered and not carried out again, also by a restarted server or by another one.
///
/// Clients send their requests in series, and send the next of a series only after they know the result of the last one.
/// So only the last request of a series can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// The series; its name is unique among all servers.
    pub series: [u8; RequestId::SERIES_BYTES],
    /// The position in the series. The lower half is the client's number, which grows by one and starts again
    /// at zero after the largest; the upper half counts these restarts. A pure repeat does not know the upper half, and
    /// has zero there.
    pub number: u64,
    /// The part: which of the changes of the request this is.
    pub part: u32,
    /// The digest of the whole request, so that a different request with the same name is not mistaken for a repeat.
    pub digest: u64,
    /// Whether the request is a pure repeat: answer it only if it was carried out before, and otherwise refuse it with
    /// [`crate::Error::NotCarriedOut`].
    pub repeat_only: bool,
}

impl RequestId {
    /// The length of the name of a series.
    pub const SERIES_BYTES: usize = 20;
    /// The length of the name of a [`RequestGroup`].
    pub const GROUP_BYTES: usize = 16;

    /// Whether two requests of a series have the same client number.
    #[must_use]
    pub fn is_same_number(number: u64, other: u64) -> bool {
        number & u64::from(u32::MAX) == other & u64::from(u32::MAX)
    }

    /// Whether both name the same change, even if one or both are pure repeats.
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
