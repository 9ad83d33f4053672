//! Before the set decides to go on without a lost replica, no survivor takes in any more of what it sends itself.
//!
//! The lost replica may be back in contact. What it hands over (contents included) between the survivors' last reports and the decision would be
//! in their copies, although the set goes on without it. If all took in more, no valid copy would be left. So each survivor closes the stream
//! and reports this, with a position that only relays of other survivors can still move. All this holds for one view, and so does the decision:
//! a later view takes everything in again.
//!
//! What must never enter: when it is time to go on without a replica (`takeover`, and administrators).

use std::sync::Arc;

use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::arrivals::{Inbox, PUTTING_AT_ONCE};
use crate::state::wire::LeaseRequest;

/// Takes in nothing more of a lost replica directly while this view is in force.
pub(super) fn close(replica: &Arc<LocalReplica>, lost: ReplicaSlot) {
    let Some(inbox) = replica.state.inboxes.get(lost) else {
        return;
    };
    if !replica.state.losses.closing.begin(lost) {
        return;
    }
    // Wakes tasks that wait to apply something.
    replica.engine.notify();
    let replica = replica.clone();
    tokio::spawn(async move {
        // Nothing is being applied while this is noted, even if another view has begun meanwhile.
        let _between_records = inbox.applying.lock().await;
        // No contents are being put in place either. The semaphore is never closed.
        let _between_pieces = inbox.putting.acquire_many(PUTTING_AT_ONCE).await;
        replica.state.losses.closing.complete(lost);
        replica.engine.notify();
    });
}

/// Lost replicas whose stream is closed here, if the others were told of everything applied.
pub(crate) fn closed_here(replica: &LocalReplica) -> Vec<u16> {
    let mut closed = replica.state.losses.closing.closed();
    let inboxes = replica.state.inboxes.lock();
    let is_told = |inbox: &Inbox| inbox.acknowledged() == inbox.applied();
    closed.retain(|slot| inboxes.get(slot).is_some_and(|inbox| is_told(inbox)));
    closed.into_iter().map(|slot| slot.0).collect()
}

/// A member reports the lost replicas from which it takes in nothing more: this replica does the same.
pub(crate) fn heard(replica: &Arc<LocalReplica>, request: &LeaseRequest) {
    if request.closed.is_empty() || request.epoch != replica.lease.view().epoch.0 {
        return;
    }
    let lost = replica.lost().into_iter();
    let lost = lost.filter(|slot| request.closed.contains(&slot.0));
    lost.for_each(|slot| close(replica, slot));
}

/// Which member has not reported in this view that the lost replica's stream is closed at this replica's position, for people. The position with
/// all contents may be lower than the applied one.
pub(super) fn open_at(replica: &LocalReplica, lost: ReplicaSlot) -> Option<String> {
    if !closed_here(replica).contains(&lost.0) {
        return Some("this server still takes in what the lost one sends".to_owned());
    }
    let (epoch, place) = (
        replica.lease.view().epoch.0,
        replica.state.inboxes.acknowledged(lost),
    );
    let news = replica.state.peers.news();
    let open = replica.holders().into_iter().find(|slot| {
        let said = news.get(slot).and_then(|news| news.said.as_ref());
        let is_closed = |request: &LeaseRequest| {
            request.closed.contains(&lost.0) && request.applied.contains(&(lost.0, place))
        };
        !said.is_some_and(|(request, _)| request.epoch == epoch && is_closed(request))
    });
    open.map(|slot| format!("replica {} still takes in what the lost one sends", slot.0))
}
