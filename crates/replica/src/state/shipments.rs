//! A peer that has no space for contents: when it is sent something again, and how much was sent to it in vain.
//!
//! The sender looks first at what the peer said that it can still take. Where that was too much all
//! the same, the peer says so, and is left alone for longer each time.
//!
//! What must never enter: what is sent, and how much space there is.

use std::time::Duration;

use tokio::time::Instant;

/// How long a peer without space is left alone, doubled each time up to the longer.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is known of a peer's lack of space.
#[derive(Debug, Default)]
pub(crate) struct Shipments {
    /// Nothing is sent before.
    until: Option<Instant>,
    /// How often it was left alone without any success in between.
    pauses: u32,
    refused_bytes: u64,
}

impl Shipments {
    /// Until when nothing is to be sent to the peer.
    pub(crate) fn paused(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// The peer says that it has no space for what is next.
    pub(crate) fn hold_back(&mut self, now: Instant) {
        self.until = Some(now + FIRST_PAUSE);
    }

    /// The peer had no space for this many bytes.
    pub(crate) fn refused(&mut self, bytes: u64, now: Instant) {
        self.refused_bytes += bytes;
        // What was under way together is refused together.
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

    /// Bytes that the peer had no space for, since the start.
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
