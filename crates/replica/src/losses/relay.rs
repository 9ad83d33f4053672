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
use crate::shared::Shared;
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
        if !inbox.may_relay(*slot, Instant::now(), AGAIN) {
            continue;
        }
        let kept = inbox.kept_behind(*applied);
        tracing::info!(
            of = lost.0,
            to = slot.0,
            messages = kept.len(),
            "relaying updates"
        );
        for records in kept {
            let of = lost.0;
            let message = wire::payload(wire::RELAYED, &Relayed { of, records });
            shared.post.send(*slot, Lane::Metadata, message);
        }
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
    pub(crate) through: u64,
    pub(crate) records: Bytes,
}
