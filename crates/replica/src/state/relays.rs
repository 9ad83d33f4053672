//! Kept messages of a stream, and what of them is relayed to one peer.
//!
//! What a peer has not yet applied, by its own report, limits what is under way to it; that is the credit. Messages under way are not sent again,
//! unless the peer makes no progress for long: it may have had a reason to drop them.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::time::{Duration, Instant};

/// At most this many bytes of a stream may be under way to one peer; the last message may exceed it. The peer's requests for its lease must also get
/// through the slowest link.
const UNDER_WAY_BYTES: usize = 4 << 20;
/// Messages are relayed again if the peer makes no progress for this long.
pub(crate) const AGAIN: Duration = Duration::from_secs(5);

/// A message of the stream with its maker's signature, so that it can be relayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    pub(crate) records: Bytes,
    pub(crate) signature: Bytes,
}

impl Signed {
    pub(crate) fn len(&self) -> usize {
        self.records.len() + self.signature.len()
    }
}

/// A kept message of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The stream was applied here up to this place before it.
    pub(crate) behind: u64,
    pub(crate) through: u64,
    pub(crate) signed: Signed,
}

/// What is relayed of one stream to one peer.
#[derive(Debug)]
pub(crate) struct Relay {
    /// The messages that the peer has not applied, by their last places and their lengths.
    under_way: VecDeque<(u64, usize)>,
    /// Everything up to here was sent.
    sent: u64,
    /// How far the peer has applied the stream, and since when it has been there.
    applied: u64,
    since: Instant,
    messages: u64,
    bytes: u64,
}

impl Relay {
    pub(crate) fn new(applied: u64, now: Instant) -> Relay {
        Relay {
            under_way: VecDeque::new(),
            sent: applied,
            applied,
            since: now,
            messages: 0,
            bytes: 0,
        }
    }

    /// The messages to send now, without a gap between them; none if the next one is not kept.
    pub(crate) fn next(
        &mut self,
        applied: u64,
        now: Instant,
        kept: &VecDeque<Kept>,
    ) -> Vec<Signed> {
        if applied > self.applied || self.under_way.is_empty() {
            self.applied = applied.max(self.applied);
            self.since = now;
        }
        if now.duration_since(self.since) > AGAIN {
            self.under_way.clear();
            self.sent = applied;
            self.since = now;
        }
        self.under_way.retain(|(through, _)| *through > applied);
        self.sent = self.sent.max(applied);
        let mut under_way: usize = self.under_way.iter().map(|(_, bytes)| *bytes).sum();
        let mut messages = Vec::new();
        for kept in kept.iter().filter(|kept| kept.through > applied) {
            if kept.through <= self.sent {
                continue;
            }
            if kept.behind > self.sent || under_way >= UNDER_WAY_BYTES {
                break;
            }
            let bytes = kept.signed.len();
            under_way += bytes;
            self.sent = kept.through;
            self.under_way.push_back((kept.through, bytes));
            self.messages += 1;
            self.bytes += bytes as u64;
            messages.push(kept.signed.clone());
        }
        messages
    }

    /// Nothing was sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.messages == 0
    }

    /// How many messages and bytes were sent.
    pub(crate) fn sum(&self) -> (u64, u64) {
        (self.messages, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE_BYTES: usize = 256 << 10;

    /// 32 MiB of a lost stream, in messages of one place each.
    fn kept() -> VecDeque<Kept> {
        let signed = Signed {
            records: vec![7; MESSAGE_BYTES].into(),
            signature: [].as_slice().into(),
        };
        let message = |place| Kept {
            behind: place,
            through: place + 1,
            signed: signed.clone(),
        };
        (0..128).map(message).collect()
    }

    /// Every 200 ms a survivor checks what another survivor, over a slow link, lacks of 32 MiB. The other reports its progress once a second.
    #[test]
    fn counterexample_46_what_is_under_way_is_bounded_and_not_sent_again() {
        let (kept, begin) = (kept(), Instant::now());
        let mut relay = Relay::new(0, begin);
        let (mut sent, mut applied) = (0, 0);
        let mut looks = 0;
        while applied < 128 {
            let now = begin + looks * Duration::from_millis(200);
            sent += relay.next(applied, now, &kept).len() as u64;
            let under_way = (sent - applied) as usize * MESSAGE_BYTES;
            assert!(under_way <= UNDER_WAY_BYTES, "{under_way} bytes");
            looks += 1;
            if looks % 5 == 0 {
                applied += 2;
            }
        }
        assert_eq!(relay.sum(), (128, 32 << 20), "every byte once");
    }

    #[test]
    fn what_the_receiver_had_to_drop_is_relayed_again_after_a_while() {
        let (kept, begin) = (kept(), Instant::now());
        let mut relay = Relay::new(0, begin);
        let first = relay.next(0, begin, &kept).len();
        assert!(relay.next(0, begin + AGAIN, &kept).is_empty());
        let later = begin + AGAIN + Duration::from_millis(1);
        assert_eq!(relay.next(0, later, &kept).len(), first);
    }
}
