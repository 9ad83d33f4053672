//! The sending half of a lane.
//!
//! A message gets its sequence number when it is first transmitted. It stays until it is acknowledged, so that a new
//! connection can send it again. Replies overtake messages that wait for credit, and need no credit: the asking side
//! has reserved space for them. Otherwise two replicas that wait for each other's credit could never finish a request.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::Consumed;
use crate::wire::{Role, WireError};

/// A message ready to be put into frames, as often as needed.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub role: Role,
    pub request: u64,
    pub kind: u32,
    pub body: Bytes,
    /// As it is transmitted: compressed when `plain_bytes` is not 0.
    pub payload: Bytes,
    pub plain_bytes: u32,
    pub payload_checksum: u32,
    /// [`crate::Message::cost`], before compression.
    pub cost: u64,
    /// For a reply: a part of the credit of its request, held until the reply has arrived. So a peer that sends
    /// requests and does not read the replies runs out of credit.
    pub ticket: Option<Arc<Consumed>>,
}

impl Outgoing {
    fn needs_credit(&self) -> bool {
        matches!(self.role, Role::OneWay | Role::Request)
    }
}

/// Messages of one lane that wait or are in flight.
#[derive(Debug)]
pub(crate) struct Outbox {
    replies: VecDeque<Outgoing>,
    waiting: VecDeque<Outgoing>,
    in_flight: VecDeque<Outgoing>,
    /// Index into `in_flight` of the next message to send again; its length when there is none.
    again: usize,
    acknowledged: u64,
    /// Credit used since the session began, and credit granted.
    spent: u64,
    credit: u64,
    /// Cost of everything waiting or in flight, replies excepted.
    queued: u64,
    queued_max: u64,
    /// Cost of the replies that wait or are in flight.
    replied: u64,
    retransmitted: u64,
}

impl Outbox {
    /// An outbox that holds at most `queued_max` bytes plus one message.
    pub(crate) fn new(queued_max: u64) -> Outbox {
        Outbox {
            replies: VecDeque::new(),
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            again: 0,
            acknowledged: 0,
            spent: 0,
            credit: 0,
            queued: 0,
            queued_max,
            replied: 0,
            retransmitted: 0,
        }
    }

    pub(crate) fn has_space(&self, cost: u64) -> bool {
        self.queued + cost <= self.queued_max || self.queued == 0
    }

    /// Queues a message. The caller has checked that there is space.
    pub(crate) fn push(&mut self, message: Outgoing) {
        if message.needs_credit() {
            self.queued += message.cost;
            self.waiting.push_back(message);
        } else {
            self.replied += message.cost;
            self.replies.push_back(message);
        }
    }

    /// A new connection exists, and the peer has reported what it received and how much credit it grants.
    pub(crate) fn resume(&mut self, received: u64, credit: u64) -> Result<(), WireError> {
        self.acknowledge(received)?;
        self.extend_credit(credit);
        self.retransmitted += self.in_flight.len() as u64;
        self.again = 0;
        Ok(())
    }

    /// Removes the messages that the peer has received.
    pub(crate) fn acknowledge(&mut self, sequence: u64) -> Result<(), WireError> {
        // Over one connection acknowledgements never decrease, and an older connection is not read after a newer one
        // resumed. So a smaller number means that the peer lost what it had received.
        if sequence < self.acknowledged {
            return Err(WireError::Violation("an acknowledgement went back"));
        }
        let fresh = sequence - self.acknowledged;
        if fresh > self.in_flight.len() as u64 {
            return Err(WireError::Violation(
                "a message was acknowledged before it was sent",
            ));
        }
        for _ in 0..fresh {
            let message = self.in_flight.pop_front().expect("counted above");
            if message.needs_credit() {
                self.queued -= message.cost;
            } else {
                self.replied -= message.cost;
            }
        }
        self.again = self
            .again
            .saturating_sub(usize::try_from(fresh).unwrap_or(usize::MAX));
        self.acknowledged = sequence;
        Ok(())
    }

    /// Raises the credit. A smaller value comes from an older message and changes nothing.
    pub(crate) fn extend_credit(&mut self, credit: u64) -> bool {
        let grew = credit > self.credit;
        self.credit = self.credit.max(credit);
        grew
    }

    /// The next message to put on the wire, with its sequence number. `None` until something is queued
    /// or credit arrives.
    pub(crate) fn transmit(&mut self) -> Option<(u64, Outgoing)> {
        if let Some(message) = self.in_flight.get(self.again) {
            self.again += 1;
            return Some((self.acknowledged + self.again as u64, message.clone()));
        }
        let message = match self.replies.pop_front() {
            Some(reply) => reply,
            None => {
                let cost = self.waiting.front()?.cost;
                if self.spent + cost > self.credit {
                    return None;
                }
                self.spent += cost;
                self.waiting.pop_front()?
            }
        };
        self.in_flight.push_back(message.clone());
        self.again = self.in_flight.len();
        Some((self.acknowledged + self.again as u64, message))
    }

    /// Whether the waiting replies have reached the size of the window.
    pub(crate) fn is_choked_by_replies(&self) -> bool {
        self.replied >= self.queued_max
    }

    /// Bytes that wait or are in flight, replies excepted.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// Messages sent again since the session began.
    pub(crate) fn retransmitted(&self) -> u64 {
        self.retransmitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, kind: u32, cost: u64) -> Outgoing {
        Outgoing {
            role,
            request: 0,
            kind,
            body: Bytes::new(),
            payload: Bytes::new(),
            plain_bytes: 0,
            payload_checksum: 0,
            cost,
            ticket: None,
        }
    }

    fn transmitted(outbox: &mut Outbox) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| outbox.transmit().map(|(sequence, m)| (sequence, m.kind))).collect()
    }

    #[test]
    fn nothing_leaves_without_credit() {
        let mut outbox = Outbox::new(100);
        outbox.push(message(Role::OneWay, 1, 30));
        outbox.push(message(Role::OneWay, 2, 30));
        assert_eq!(transmitted(&mut outbox), []);
        assert!(outbox.extend_credit(59));
        assert_eq!(transmitted(&mut outbox), [(1, 1)]);
        assert!(!outbox.extend_credit(40), "credit never shrinks");
        outbox.extend_credit(60);
        assert_eq!(transmitted(&mut outbox), [(2, 2)]);
    }

    #[test]
    fn a_reply_overtakes_what_waits_for_credit() {
        let mut outbox = Outbox::new(100);
        outbox.push(message(Role::OneWay, 1, 30));
        outbox.push(message(Role::Reply, 2, 30));
        assert_eq!(transmitted(&mut outbox), [(1, 2)]);
        outbox.extend_credit(30);
        assert_eq!(transmitted(&mut outbox), [(2, 1)]);
    }

    #[test]
    fn after_a_break_exactly_what_the_peer_lacks_is_sent_again_with_the_same_numbers() {
        let mut outbox = Outbox::new(1000);
        outbox.extend_credit(1000);
        for kind in 1..=5 {
            outbox.push(message(Role::OneWay, kind, 10));
        }
        assert_eq!(transmitted(&mut outbox).len(), 5);
        outbox.acknowledge(1).expect("sent");
        outbox.push(message(Role::OneWay, 6, 10));
        outbox.resume(3, 1000).expect("plausible");
        assert_eq!(transmitted(&mut outbox), [(4, 4), (5, 5), (6, 6)]);
        assert_eq!(outbox.retransmitted(), 2);
    }

    #[test]
    fn an_acknowledgement_in_the_middle_of_sending_again_skips_nothing() {
        let mut outbox = Outbox::new(1000);
        outbox.extend_credit(1000);
        for kind in 1..=5 {
            outbox.push(message(Role::OneWay, kind, 10));
        }
        transmitted(&mut outbox);
        outbox.resume(0, 1000).expect("plausible");
        assert_eq!(outbox.transmit().map(|(s, _)| s), Some(1));
        outbox.acknowledge(3).expect("sent before");
        assert_eq!(transmitted(&mut outbox), [(4, 4), (5, 5)]);
    }

    #[test]
    fn space_returns_only_with_acknowledgement() {
        let mut outbox = Outbox::new(20);
        outbox.extend_credit(1000);
        outbox.push(message(Role::OneWay, 1, 15));
        assert!(!outbox.has_space(10));
        transmitted(&mut outbox);
        assert!(!outbox.has_space(10), "in flight it may be needed again");
        outbox.acknowledge(1).expect("sent");
        assert!(outbox.has_space(10));
        assert!(
            outbox.has_space(50),
            "one message of any size fits an empty outbox"
        );
    }

    #[test]
    fn impossible_acknowledgements_are_violations() {
        let mut outbox = Outbox::new(1000);
        outbox.extend_credit(1000);
        outbox.push(message(Role::OneWay, 1, 10));
        assert!(outbox.acknowledge(1).is_err(), "not sent yet");
        transmitted(&mut outbox);
        assert!(outbox.acknowledge(u64::MAX).is_err());
        outbox.acknowledge(1).expect("sent");
        assert!(outbox.resume(0, 1000).is_err(), "the peer forgot");
    }
}
