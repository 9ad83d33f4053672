//! Updates of a lost replica that only some have received.
//!
//! Everybody keeps the messages of each stream until all who take part have applied them, as far as memory
//! allows. Whoever lacks something that nobody keeps any more has to take a whole copy.

use std::sync::Arc;

use bytes::Bytes;
use peer::Lane;
use tokio::time::{Duration, Instant};
use vfs::ReplicaSlot;

use super::{applied_by_others, applied_here};
use crate::arrivals::Inbox;
use crate::shared::Shared;
use crate::views;
use crate::wire::{self, Malformed, Relayed};

/// What was relayed is given so long before it is relayed again.
const AGAIN: Duration = Duration::from_secs(2);

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
            let behind = applied.filter(|(_, applied)| *applied < applied_here(shared, *of));
            if let (Some((_, applied)), Some(inbox)) = (behind, shared.inbox(*of)) {
                send_kept(shared, &inbox, *slot, *applied);
            }
        }
    }
}

fn send_kept(shared: &Arc<Shared>, inbox: &Inbox, to: ReplicaSlot, behind: u64) {
    if !inbox.may_relay(to, Instant::now(), AGAIN) {
        return;
    }
    let kept = inbox.kept_behind(behind);
    let of = inbox.from.0;
    tracing::info!(of, to = to.0, messages = kept.len(), "relaying updates");
    for records in kept {
        let message = wire::payload(wire::Kind::Relayed, &Relayed { of, records });
        shared.post.send(to, Lane::Metadata, message);
    }
}

/// Somebody relays updates of a lost replica.
pub(crate) fn relayed(shared: &Arc<Shared>, relayed: Relayed) -> Result<(), Malformed> {
    if let Some(inbox) = shared.inbox(ReplicaSlot(relayed.of)) {
        inbox.take_in_relayed(relayed.records);
    }
    Ok(())
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
    pub(crate) records: Bytes,
}
