//! How a replica talks to its peers: sizes, times and the number of lanes.
//!
//! Two replicas may differ in all of it; what both must agree on is settled in the hello.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::message::Lane;

/// The versions of the transport, and of what replicas say over it, that this build speaks. 2 came with views, 3
/// with controls that are set aside, 4 with settlements that records name, 5 with copies that go on, 6 with the
/// attributes of files that are written elsewhere, 7 with signed lists of members, and with promises that name the incarnation
/// that asked, 8 without epochs in frames, with refusals that show a removed member the list that says so, and with the
/// names of clients' requests, 9 with numbers that a replica attests when it says them of itself, 10 with longer numbers in the
/// names of requests, with objects that are gone since a request made them, with updates that their maker signs, and with
/// pages of a copy that name it, 11 with the sender's view in update records, 12 with lists of members that say where clients
/// reach them, and with junctions, 13 with contents that go as sums where the other may have them, and without an error among the
/// answers to forwarded operations that nobody could get, 14 with lost replicas of which nothing more is taken in,
/// 15 with copies that are complete, 16 with what a member says of contents that all the others have, 17 with lost replicas of whose
/// contents nothing more is taken in, 18 with wishes for contents that say how far their sender is, 19 with what a file's data follows
/// of which a lost replica's is missing, 20 with turns of wishes, 21 with files named as supplied,
/// 22 with data of members that is missing of files that a lost one had sent in part.
pub const PROTOCOL_VERSIONS: RangeInclusive<u32> = 22..=22;

/// The most data lanes that a peer may ask for.
pub const MAX_DATA_LANES: u32 = 64;

/// How one replica talks to its peers. All sizes are per peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Versions offered; the highest that both offer is spoken.
    pub versions: RangeInclusive<u32>,
    /// Data connections to each peer. The smaller wish of the two replicas counts.
    pub data_lanes: u32,
    /// Bytes that may be on their way, or wait for the receiver's handler, over all data lanes together.
    /// A link of 1 Gbit/s at 200 ms holds 25 MB; the default leaves space for bursts and slow storage.
    pub data_window_bytes: u64,
    /// The same for the metadata lane.
    pub metadata_window_bytes: u64,
    /// The same for the control lane.
    pub control_window_bytes: u64,
    /// How often each side shows on the control lane that it is there. After three silent intervals all connections to
    /// the peer are given up. On other lanes both take four times as long.
    pub keepalive: Duration,
    /// How long a connection may take to be made, TLS and hello included; the first bytes have three seconds.
    pub handshake_timeout: Duration,
    /// The pause before the second attempt to connect; it doubles.
    pub backoff_min: Duration,
    /// The longest pause between attempts.
    pub backoff_max: Duration,
    /// Requests of one peer that are worked on at once; more are refused as busy.
    pub requests_served_max: usize,
    /// Whether data payloads are compressed where that pays.
    pub compression: bool,
    /// Which program this is, as the others show it to people; empty says nothing.
    pub program: String,
    /// Connections that may be in their handshake at once. For one more the oldest that has said nothing is closed.
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
    /// The window of one lane, in bytes, when `data_lanes` connections share the data window. Never
    /// smaller than one message, or that message could never be sent.
    #[must_use]
    pub fn window_bytes(&self, lane: Lane, data_lanes: u32) -> u64 {
        let share = match lane {
            Lane::Control => self.control_window_bytes,
            Lane::Metadata => self.metadata_window_bytes,
            Lane::Data => self.data_window_bytes / u64::from(data_lanes.max(1)),
        };
        share.max(lane.max_message_cost())
    }

    /// Data lanes offered, within what the protocol allows.
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
