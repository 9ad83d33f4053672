//! Updates of a lost replica that only some survivors have received.
//!
//! Each replica keeps the messages of every stream until all members have applied them, as far as memory allows. A replica that lacks messages
//! that no replica keeps must take a whole copy.
//!
//! The relaying replica is not trusted: each message bears its maker's signature, which every receiver can check. So no replica can invent or
//! omit a part of another replica's stream.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use peer::{Lane, Unproven};
use tokio::time::Instant;
use vfs::ReplicaSlot;

use super::level::{applied_by_others, applied_by_reported};
use crate::driver::local_replica::LocalReplica;
use crate::membership::authorisation::{self, Reason};
use crate::state::arrivals::Inbox;
use crate::state::copies::Held;
use crate::state::relays::Signed;
use crate::state::wire::{self, Malformed, Records, Relayed};

/// Logged once; repeats are logged as sums.
const REFUSED: &str = "relayed updates are refused";

/// Sends kept messages to members that lack updates of a lost replica.
pub(super) async fn relay(replica: &Arc<LocalReplica>, lost: ReplicaSlot) {
    let Some(inbox) = replica.state.inboxes.get(lost) else {
        return;
    };
    // One that never reports must not keep the others apart (counterexample 96).
    let others = applied_by_reported(replica, lost);
    let here = replica.state.inboxes.acknowledged(lost);
    let ahead_of_all = others.values().all(|applied| *applied <= here);
    let behind = others.iter().filter(|(_, applied)| **applied < here);
    for (slot, applied) in behind.filter(|_| ahead_of_all) {
        send_kept(replica, &inbox, *slot, *applied);
    }
    let level = others.iter().filter(|(_, applied)| **applied >= here);
    level.for_each(|(slot, _)| inbox.end_relay(*slot));
}

/// Sends kept messages to replicas outside the view that are rejoining, if the makers cannot send them: lost replicas, and members that do not
/// answer.
pub(super) fn relay_to_rejoining(replica: &Arc<LocalReplica>) {
    let view = replica.lease.view();
    if !replica.takes_part() {
        return;
    }
    let silent = replica.silent();
    let news = replica.state.peers.news();
    let gone = |slot: &ReplicaSlot| {
        silent.contains(slot) || (!view.active.contains(slot) && !replica.is_given_up(*slot))
    };
    let (others, followed) = (
        replica.state.members.others(),
        replica.state.inboxes.followed(),
    );
    for slot in others.iter().filter(|slot| !view.active.contains(slot)) {
        let said = news.get(slot).and_then(|news| news.said.as_ref());
        // Nothing comes between the rows of a copy.
        let takes_updates = replica.state.conversations.held(*slot) > Some(Held::Nothing);
        let Some((request, _)) = said.filter(|_| takes_updates) else {
            continue;
        };
        for of in followed.iter().filter(|of| *of != slot && gone(of)) {
            let applied = request.applied.iter().find(|(lost, _)| *lost == of.0);
            let (Some((_, applied)), Some(inbox)) = (applied, replica.state.inboxes.get(*of))
            else {
                continue;
            };
            match *applied < replica.state.inboxes.acknowledged(*of) {
                true => send_kept(replica, &inbox, *slot, *applied),
                false => inbox.end_relay(*slot),
            }
        }
    }
}

fn send_kept(replica: &Arc<LocalReplica>, inbox: &Inbox, to: ReplicaSlot, behind: u64) {
    let certificate = inbox.certificate();
    if certificate.is_empty() || !replica.state.outbound.is_connected(to, Lane::Metadata) {
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
        replica.state.outbound.send(to, Lane::Metadata, message);
    }
}

/// Why a relayed message is dropped.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("no replica in that slot is followed here")]
    Unknown,
    #[error("{0}")]
    NotNow(Reason),
    #[error(transparent)]
    Unproven(#[from] Unproven),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("too much of it waits already")]
    TooMuch,
}

/// A peer relays updates of a lost replica. Unfit messages are dropped and counted; an honest sender sends them again.
pub(crate) fn relayed(replica: &LocalReplica, by: ReplicaSlot, relayed: Relayed) {
    if let Err(why) = take_relayed(replica, relayed) {
        replica
            .state
            .metrics
            .relays_refused
            .fetch_add(1, Ordering::Relaxed);
        if let Some(sum) = replica.state.repeats.is_to_tell(REFUSED, by) {
            tracing::warn!(peer = by.0, %why, %sum, "updates that a peer relays are dropped");
        }
    }
}

fn take_relayed(replica: &LocalReplica, relayed: Relayed) -> Result<(), Unfit> {
    let of = ReplicaSlot(relayed.of);
    let inbox = replica.state.inboxes.get(of).ok_or(Unfit::Unknown)?;
    authorisation::admit_relayed(replica, of).map_err(Unfit::NotNow)?;
    let maker = (of, &relayed.certificate[..]);
    replica
        .signatures
        .verify(maker, wire::UPDATES, &relayed.records, &relayed.signature)?;
    if let Err(why) = looked_at(of, &relayed.records) {
        // The maker signed it, so the relaying replica is not to blame.
        let is_news = replica
            .state
            .peers
            .with(of, |peer| peer.nonsense.note_relayed(&why.to_string()));
        if is_news {
            tracing::error!(of = of.0, %why, "a lost replica made updates that make no sense");
        }
        return Err(why.into());
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

fn looked_at(maker: ReplicaSlot, records: &[u8]) -> Result<(), Malformed> {
    let records: Records = wire::decode(records)?;
    records.check(maker)
}

/// Drops kept messages that all members have applied.
pub(super) fn forget_what_all_have(replica: &Arc<LocalReplica>) {
    let inboxes = replica.state.inboxes.all();
    for inbox in inboxes {
        if let Some(others) = applied_by_others(replica, inbox.from) {
            let everywhere = others.values().copied().min();
            inbox.forget_kept(everywhere.unwrap_or(u64::MAX));
        }
    }
}
