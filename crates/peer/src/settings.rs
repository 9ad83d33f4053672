//! How a replica talks to its peers: sizes, times and the number of lanes.
//!
//! Two replicas may differ in all of these values. The hello settles what both must agree on.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::message::Lane;

/// The versions of the transport, and of the messages over it, that this build speaks. 2: views. 3: controls that are
/// set aside. 4: settlements that records name. 5: copies that continue. 6: attributes of files that are written
/// elsewhere. 7: signed lists of members, and lease grants that name the incarnation that asked. 8: no epochs in
/// frames; refusals that show a removed member the list that removed it; names of clients' requests. 9: numbers that a
/// replica attests when it reports them about itself. 10: longer numbers in the names of requests; objects that are
/// gone since a request made them; updates signed by their maker; pages of a copy that name the copy. 11: the sender's
/// view in update records. 12: lists of members with addresses for clients; junctions. 13: checksums in place of
/// contents that the other side may have; one unused error fewer among the answers to forwarded operations. 14: lost
/// replicas whose updates are no longer accepted. 15: complete copies. 16: reports of contents that all other members
/// have. 17: lost replicas whose contents are no longer accepted. 18: requests for contents that report the sender's
/// progress. 19: the point from which a lost replica's data of a file is missing. 20: turns of requests for contents.
/// 21: files named as supplied. 22: missing data of members for files that a lost member had sent in part.
/// 23: notes of complete files that repeat the place of the report, once they are stable. 24: silent members left out of
/// reports of contents that the others have. 25: the first part of a list of wanted files; settlements known by a supplier
/// that lacks data; sums of many files. 26: the question whether an owner has a file open with a denial.
pub const PROTOCOL_VERSIONS: RangeInclusive<u32> = 26..=26;

/// The maximum number of data lanes that a peer may ask for.
pub const MAX_DATA_LANES: u32 = 64;

/// How one replica talks to its peers. All sizes are per peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The offered versions. The highest version that both offer is used.
    pub versions: RangeInclusive<u32>,
    /// Data connections to each peer. The smaller value of the two replicas is used.
    pub data_lanes: u32,
    /// Bytes that may be in flight, or wait for the receiver's handler, over all data lanes together. A link of 1
    /// Gbit/s at 200 ms holds 25 MB. The default leaves space for bursts and slow storage.
    pub data_window_bytes: u64,
    /// The same for the metadata lane.
    pub metadata_window_bytes: u64,
    /// The same for the control lane.
    pub control_window_bytes: u64,
    /// How often each side sends a keepalive on the control lane. After three silent intervals all connections to the
    /// peer are closed. On other lanes both times are four times as long.
    pub keepalive: Duration,
    /// The timeout for making a connection, TLS and hello included. The first bytes must come within three seconds.
    pub handshake_timeout: Duration,
    /// The pause before the second attempt to connect; it doubles with each attempt.
    pub backoff_min: Duration,
    /// The longest pause between attempts.
    pub backoff_max: Duration,
    /// The maximum number of requests of one peer in progress. More requests are refused as busy.
    pub requests_served_max: usize,
    /// Whether data payloads are compressed when that pays.
    pub compression: bool,
    /// The name of this program, which the peers show to people; empty for none.
    pub program: String,
    /// The maximum number of connections in their handshake. For one more, the oldest that has sent nothing is closed.
    pub handshakes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            versions: PROTOCOL_VERSIONS,
            data_lanes: 4,
            data_window_bytes: 64 << 20,
            metadata_window_bytes: 16 << 20,
            control_window_bytes: 4 << 20,
            keepalive: Duration::from_secs(2),
            handshake_timeout: Duration::from_secs(10),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            requests_served_max: 256,
            compression: true,
            program: String::new(),
            handshakes_max: 64,
        }
    }
}

impl Settings {
    /// The window of one lane, in bytes, when `data_lanes` connections share the data window. It is never smaller than
    /// one message, because such a message could never be sent.
    #[must_use]
    pub fn window_bytes(&self, lane: Lane, data_lanes: u32) -> u64 {
        let share = match lane {
            Lane::Control => self.control_window_bytes,
            Lane::Metadata => self.metadata_window_bytes,
            Lane::Data => self.data_window_bytes / u64::from(data_lanes.max(1)),
        };
        share.max(lane.max_message_cost())
    }

    /// The number of data lanes to offer, within the limits of the protocol.
    #[must_use]
    pub fn offered_data_lanes(&self) -> u32 {
        self.data_lanes.clamp(1, MAX_DATA_LANES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_window_fills_a_gigabit_at_200_ms() {
        let settings = Settings::default();
        let bytes_in_flight = 1_000_000_000 / 8 / 5;
        let window: u64 = (0..settings.data_lanes)
            .map(|_| settings.window_bytes(Lane::Data, settings.data_lanes))
            .sum();
        assert!(window >= 64 << 20 && window > bytes_in_flight);
    }

    #[test]
    fn no_window_is_too_small_for_one_message() {
        let settings = Settings {
            data_window_bytes: 1,
            ..Settings::default()
        };
        assert!(settings.window_bytes(Lane::Data, 4) >= Lane::Data.max_message_cost());
    }
}
