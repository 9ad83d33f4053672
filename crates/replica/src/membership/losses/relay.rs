//! Updates of a lost replica that only some have received.
//!
//! Everybody keeps the messages of each stream until all who take part have applied them, as far as memory
//! allows. Whoever lacks something that nobody keeps any more has to take a whole copy.
//!
//! Who relays is not believed: each message bears the signature of its maker, who signed it for whoever it may be passed on to. So nobody
//! can invent, or leave out, a part of another one's stream.
//!
//! Only so much is under way to one peer as it has not yet applied, by its own word; that is the credit. What is under way
//! is not sent again, unless nothing has come of it for long: the receiver may have had reason to drop it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use peer::{Lane, Unproven};
use tokio::time::{Duration, Instant};
use vfs::ReplicaSlot;

use super::{applied_by_others, applied_here};
use crate::driver::shared::Shared;
use crate::membership::authorisation::Reason;
use crate::membership::views;
use crate::state::arrivals::{Inbox, Signed};
use crate::state::wire::{self, Malformed, Records, Relayed};

/// So many bytes of a stream may be under way to one peer; the last message may exceed it. Beside them the peer's questions
/// for its lease have to get through the slowest link.
const UNDER_WAY_BYTES: usize = 4 << 20;
/// What a peer has not applied for so long, nor anything before it, is relayed again.
pub(super) const AGAIN: Duration = Duration::from_secs(5);
/// What is told of once, with sums later.
const REFUSED: &str = "relayed updates are refused";

/// Sends those who lack updates of a lost replica what is kept here.
pub(super) async fn relay(shared: &Arc<Shared>, lost: ReplicaSlot) {
    let (Some(inbox), Some(others)) = (shared.inbox(lost), applied_by_others(shared, lost)) else {
        return;
    };
    let here = applied_here(shared, lost);
    let ahead_of_all = others.values().all(|applied| *applied <= here);
    let behind = others.iter().filter(|(_, applied)| **applied < here);
    for (slot, applied) in behind.filter(|_| ahead_of_all) {
        send_kept(shared, &inbox, *slot, *applied);
    }
    let level = others.iter().filter(|(_, applied)| **applied >= here);
    level.for_each(|(slot, _)| end(&inbox, *slot));
}

/// Sends those outside the view, who are on their way back, what is kept here of replicas that cannot send it themselves:
/// lost ones, and members that do not answer.
pub(super) fn relay_to_returning(shared: &Arc<Shared>) {
    let view = shared.standing.view();
    if !shared.takes_part() {
        return;
    }
    let silent = views::silent(shared);
    let news = shared.news();
    let gone = |slot: &ReplicaSlot| {
        silent.contains(slot) || (!view.active.contains(slot) && !shared.is_given_up(*slot))
    };
    let (others, followed) = (shared.others(), shared.followed());
    for slot in others.iter().filter(|slot| !view.active.contains(slot)) {
        let said = news.get(slot).and_then(|news| news.said.as_ref());
        let Some((ask, _)) = said.filter(|_| shared.post.is_in_session(*slot)) else {
            continue;
        };
        for of in followed.iter().filter(|of| *of != slot && gone(of)) {
            let applied = ask.applied.iter().find(|(lost, _)| *lost == of.0);
            let (Some((_, applied)), Some(inbox)) = (applied, shared.inbox(*of)) else {
                continue;
            };
            match *applied < applied_here(shared, *of) {
                true => send_kept(shared, &inbox, *slot, *applied),
                false => end(&inbox, *slot),
            }
        }
    }
}

fn send_kept(shared: &Arc<Shared>, inbox: &Inbox, to: ReplicaSlot, behind: u64) {
    let certificate = inbox.certificate();
    if certificate.is_empty() || !shared.post.is_connected(to, Lane::Metadata) {
        return;
    }
    let (messages, begins) = inbox.relay(to, behind, Instant::now());
    let of = inbox.from.0;
    if begins {
        tracing::info!(of, to = to.0, behind, "relaying updates");
    }
    for signed in messages {
        let relayed = Relayed {
            of,
            records: signed.records,
            signature: signed.signature,
            certificate: certificate.clone(),
        };
        let message = wire::payload(wire::Kind::Relayed, &relayed);
        shared.post.send(to, Lane::Metadata, message);
    }
}

fn end(inbox: &Inbox, to: ReplicaSlot) {
    if let Some((messages, bytes)) = inbox.end_relay(to) {
        let of = inbox.from.0;
        tracing::info!(of, to = to.0, messages, bytes, "updates were relayed");
    }
}

/// A peer has another session: what was under way to it is lost.
pub(crate) fn forget_relays(shared: &Shared, to: ReplicaSlot) {
    let inboxes: Vec<_> = shared.inboxes().values().cloned().collect();
    inboxes.iter().for_each(|inbox| end(inbox, to));
}

/// Why what somebody relays is dropped.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("no replica in that slot is followed here")]
    Unknown,
    #[error("{0}")]
    NotNow(Reason),
    #[error(transparent)]
    Unproven(#[from] Unproven),
    #[error("no stream of updates has such places")]
    Implausible,
    #[error("too much of it waits already")]
    TooMuch,
}

/// Somebody relays updates of a lost replica. What is not fit to be taken is dropped and counted; who sent it in good faith sends it again.
pub(crate) fn relayed(shared: &Shared, by: ReplicaSlot, payload: &[u8]) {
    if let Err(why) = take_relayed(shared, payload) {
        shared
            .figures
            .relays_refused
            .fetch_add(1, Ordering::Relaxed);
        if let Some(sum) = shared.is_to_tell(REFUSED, by) {
            tracing::warn!(peer = by.0, %why, %sum, "updates that a peer relays are dropped");
        }
    }
}

fn take_relayed(shared: &Shared, payload: &[u8]) -> Result<(), Unfit> {
    let relayed: Relayed = wire::decode(payload)?;
    let of = ReplicaSlot(relayed.of);
    let inbox = shared.inbox(of).ok_or(Unfit::Unknown)?;
    shared.admit_relayed(of).map_err(Unfit::NotNow)?;
    let maker = (of, &relayed.certificate[..]);
    shared
        .signatures
        .verify(maker, wire::UPDATES, &relayed.records, &relayed.signature)?;
    let records: Records = wire::decode(&relayed.records)?;
    if !records.is_plausible() {
        return Err(Unfit::Implausible);
    }
    inbox.note_certificate(relayed.certificate);
    let signed = Signed {
        records: relayed.records,
        signature: relayed.signature,
    };
    match inbox.take_in_relayed(signed) {
        true => Ok(()),
        false => Err(Unfit::TooMuch),
    }
}

/// Drops kept messages that everybody who takes part has applied.
pub(super) fn forget_what_all_have(shared: &Arc<Shared>) {
    let inboxes: Vec<_> = shared.inboxes().values().cloned().collect();
    for inbox in inboxes {
        if let Some(others) = applied_by_others(shared, inbox.from) {
            let everywhere = others.values().copied().min();
            inbox.forget_kept(everywhere.unwrap_or(u64::MAX));
        }
    }
}

/// A message of a stream, kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Before it the stream was applied here up to this place.
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

    /// The messages to send now, without a gap between them; none when what follows is not kept.
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

    /// So many messages and bytes were sent.
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

    /// Every 200 ms a survivor looks what another one, over a slow link, lacks of 32 MiB. That one says how far it is once a
    /// second.
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
