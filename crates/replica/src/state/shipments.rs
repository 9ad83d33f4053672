//! Peers that have no room for contents: when they are sent something again, and how much was sent to them in vain.
//!
//! Whoever sends looks first at what the peer said that it can still take. Where that was too much all the same, the peer
//! says so, and is left alone for longer each time.
//!
//! What must never enter: what is sent, and how much room there is.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use vfs::ReplicaSlot;

/// How long a peer without room is left alone, doubled each time up to the longer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct Shipment {
    /// Nothing is sent before.
    until: Option<Instant>,
    /// How often it was left alone without any success in between.
    pauses: u32,
    refused_bytes: u64,
}

/// What is known of each peer's lack of room.
#[derive(Debug, Default)]
pub(crate) struct Shipments(Mutex<BTreeMap<ReplicaSlot, Shipment>>);

impl Shipments {
    /// Until when nothing is to be sent to a peer.
    pub(crate) fn paused(&self, to: ReplicaSlot, now: Instant) -> Option<Instant> {
        let until = self.all().get(&to)?.until?;
        (until > now).then_some(until)
    }

    /// The peer says that it has no room for what is next.
    pub(crate) fn hold_back(&self, to: ReplicaSlot, now: Instant) {
        self.all().entry(to).or_default().until = Some(now + FIRST_PAUSE);
    }

    /// The peer had no room for so many bytes.
    pub(crate) fn refused(&self, by: ReplicaSlot, bytes: u64, now: Instant) {
        let mut all = self.all();
        let shipment = all.entry(by).or_default();
        shipment.refused_bytes += bytes;
        // What was under way together is refused together.
        if shipment.until.is_none_or(|until| until <= now) {
            let pause = FIRST_PAUSE * 2_u32.saturating_pow(shipment.pauses.min(16));
            shipment.until = Some(now + pause.min(LONGEST_PAUSE));
            shipment.pauses += 1;
        }
    }

    /// The peer has put something in place.
    pub(crate) fn placed(&self, by: ReplicaSlot) {
        if let Some(shipment) = self.all().get_mut(&by) {
            (shipment.until, shipment.pauses) = (None, 0);
        }
    }

    /// Whether the peer lacks room.
    pub(crate) fn awaits_room(&self, peer: ReplicaSlot) -> bool {
        self.all().get(&peer).is_some_and(|one| one.until.is_some())
    }

    /// Bytes that the peer had no room for, since the start.
    pub(crate) fn refused_bytes(&self, peer: ReplicaSlot) -> u64 {
        self.all().get(&peer).map_or(0, |one| one.refused_bytes)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, Shipment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: ReplicaSlot = ReplicaSlot(2);
    const MEBIBYTE: u64 = 1 << 20;

    /// 2.2 GB were sent for 20 MiB that a peer with a full disk lacked, at 17.5 MB/s.
    #[test]
    fn a_peer_with_a_full_disk_is_sent_little_in_vain() {
        let (shipments, began) = (Shipments::default(), Instant::now());
        // For ten minutes 64 pieces are under way whenever something may be sent.
        let mut now = began;
        while now < began + Duration::from_secs(600) {
            if let Some(until) = shipments.paused(PEER, now) {
                now = until;
                continue;
            }
            (0..64).for_each(|_| shipments.refused(PEER, MEBIBYTE, now));
        }
        assert!(shipments.awaits_room(PEER));
        let rounds = shipments.refused_bytes(PEER) / MEBIBYTE / 64;
        assert!((20..30).contains(&rounds), "{rounds}");
        shipments.placed(PEER);
        assert_eq!(shipments.paused(PEER, now), None);
        assert!(!shipments.awaits_room(PEER));
        shipments.refused(PEER, 1, now);
        assert_eq!(shipments.paused(PEER, now), Some(now + FIRST_PAUSE));
    }

    #[test]
    fn one_that_says_so_is_asked_again_soon() {
        let (shipments, now) = (Shipments::default(), Instant::now());
        for _ in 0..9 {
            shipments.hold_back(PEER, now);
        }
        assert_eq!(shipments.paused(PEER, now), Some(now + FIRST_PAUSE));
        assert_eq!(shipments.paused(PEER, now + FIRST_PAUSE), None);
        assert!(
            shipments.awaits_room(PEER),
            "until something is put in place"
        );
        assert_eq!(shipments.refused_bytes(PEER), 0);
    }
}
