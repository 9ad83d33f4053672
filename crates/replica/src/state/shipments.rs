//! A peer that has no space for contents: when it is sent something again, and how much was sent to it in vain.
//!
//! The sender first checks the space that the peer reported. If the peer still refuses, the sender pauses, longer each time.
//!
//! What must never enter: what is sent, and how much space there is.

use std::time::Duration;

use tokio::time::Instant;

/// The pause for a peer without space, doubled each time up to the longer one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is known of a peer's lack of space.
#[derive(Debug, Default)]
pub(crate) struct Shipments {
    /// Nothing is sent before this.
    until: Option<Instant>,
    /// How many pauses there were without a success in between.
    pauses: u32,
    refused_bytes: u64,
}

impl Shipments {
    /// Until when nothing is to be sent to the peer.
    pub(crate) fn paused(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// The peer reports that it has no space for the next piece.
    pub(crate) fn hold_back(&mut self, now: Instant) {
        self.until = Some(now + FIRST_PAUSE);
    }

    /// The peer had no space for this many bytes.
    pub(crate) fn refused(&mut self, bytes: u64, now: Instant) {
        self.refused_bytes += bytes;
        // Pieces that were under way together are refused together.
        if self.paused(now).is_none() {
            let pause = FIRST_PAUSE * 2_u32.saturating_pow(self.pauses.min(16));
            self.until = Some(now + pause.min(LONGEST_PAUSE));
            self.pauses += 1;
        }
    }

    /// The peer has put something in place.
    pub(crate) fn placed(&mut self) {
        (self.until, self.pauses) = (None, 0);
    }

    /// Whether the peer lacks space.
    pub(crate) fn awaits_space(&self) -> bool {
        self.until.is_some()
    }

    /// Bytes for which the peer had no space, since the start.
    pub(crate) fn refused_bytes(&self) -> u64 {
        self.refused_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    /// 2.2 GB were sent for 20 MiB that a peer with a full disk lacked, at 17.5 MB/s.
    #[test]
    fn a_peer_with_a_full_disk_is_sent_little_in_vain() {
        let (mut shipments, began) = (Shipments::default(), Instant::now());
        // For ten minutes 64 pieces are under way whenever something may be sent.
        let mut now = began;
        while now < began + Duration::from_secs(600) {
            if let Some(until) = shipments.paused(now) {
                now = until;
                continue;
            }
            (0..64).for_each(|_| shipments.refused(MEBIBYTE, now));
        }
        assert!(shipments.awaits_space());
        let rounds = shipments.refused_bytes() / MEBIBYTE / 64;
        assert!((20..30).contains(&rounds), "{rounds}");
        shipments.placed();
        assert_eq!(shipments.paused(now), None);
        assert!(!shipments.awaits_space());
        shipments.refused(1, now);
        assert_eq!(shipments.paused(now), Some(now + FIRST_PAUSE));
    }

    #[test]
    fn one_that_says_so_is_asked_again_soon() {
        let (mut shipments, now) = (Shipments::default(), Instant::now());
        for _ in 0..9 {
            shipments.hold_back(now);
        }
        assert_eq!(shipments.paused(now), Some(now + FIRST_PAUSE));
        assert_eq!(shipments.paused(now + FIRST_PAUSE), None);
        assert!(shipments.awaits_space(), "until something is put in place");
        assert_eq!(shipments.refused_bytes(), 0);
    }
}
