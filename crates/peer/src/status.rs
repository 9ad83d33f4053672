//! Status and counters of one peer, for people and metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use vfs::ReplicaSlot;

use crate::identity::Incarnation;
use crate::message::Lane;

/// Counters that outlive sessions.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    rtt_us: AtomicU64,
    connections: AtomicU64,
    refused: AtomicU64,
}

impl Counters {
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Only the control lane is measured: an echo behind file contents would show how full that lane is.
    pub(crate) fn measured_rtt(&self, lane: Lane, sample_us: u64) {
        if lane == Lane::Control {
            let before = self.rtt_us.load(Ordering::Relaxed);
            let smoothed = if before == 0 {
                sample_us
            } else {
                (before * 7 + sample_us) / 8
            };
            self.rtt_us.store(smoothed.max(1), Ordering::Relaxed);
        }
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        match self.rtt_us.load(Ordering::Relaxed) {
            0 => None,
            us => Some(Duration::from_micros(us)),
        }
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn connect(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }
}

/// The status of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Which replica.
    pub slot: ReplicaSlot,
    /// The newest known incarnation; `None` before the first contact.
    pub incarnation: Option<Incarnation>,
    /// Connections that are up.
    pub lanes_connected: u32,
    /// Connections that there should be; 0 before the first hello.
    pub lanes: u32,
    /// Smoothed round-trip time of the control lane.
    pub rtt: Option<Duration>,
    /// Bytes written to the connections since this replica started, headers and repetitions included.
    pub sent_bytes: u64,
    /// Bytes of bodies and payloads read.
    pub received_bytes: u64,
    /// Bytes that wait to be sent or acknowledged, before compression.
    pub queued_bytes: u64,
    /// Bytes that arrived and have not been released by the handler.
    pub held_bytes: u64,
    /// Messages sent again after a connection broke, in the present session.
    pub retransmitted: u64,
    /// Connections made since this replica started.
    pub connections: u64,
    /// Messages that the handler refused. Refused requests are answered and not counted.
    pub refused: u64,
    /// Why the last attempt to connect failed; removed after a successful attempt.
    pub last_error: Option<String>,
    /// The name of the peer's program, from the last hello.
    pub program: Option<String>,
}
