//! Taking part again: from the admission until the first answer to a client.
//!
//! The members finished many operations without the admitted replica, and no longer remember them as controls. So each member tells it how far
//! its stream was when it entered the view. Later the member tells it that everything owed at that moment has arrived. Newer operations are
//! protected by controls that the newcomer was told of or has acknowledged.

use std::sync::Arc;

use control::Epoch;
use peer::Lane;
use vfs::ReplicaSlot;

use crate::driver::arrival::Lack;
use crate::driver::local_replica::LocalReplica;
use crate::state::views::{Arrival, Debt};
use crate::state::wire::{self, CaughtUp, Joined};

/// This replica has entered a view in which another one takes part again.
pub(crate) fn greet_newcomer(replica: &Arc<LocalReplica>, slot: ReplicaSlot) {
    let since = replica
        .lease
        .view()
        .since
        .get(&slot)
        .map_or(0, |since| since.0);
    let debt = replica.engine.begin_debt(slot, since);
    replica.state.debts.lock().insert(slot, debt);
    replica.engine.expedite(None);
    say_joined(replica, slot);
    look_at_debts(replica);
}

/// A peer lacks updates from before it took part. This replica was restarted and does not know which. It sends everything that may not be
/// everywhere. It may have greeted that peer in an earlier view, which it then left (counterexample 100).
pub(super) fn greet_unknown(replica: &Arc<LocalReplica>, slot: ReplicaSlot) {
    let view = replica.lease.view();
    let takes_part = view.active.contains(&slot) && replica.takes_part();
    let since = view.since.get(&slot).map_or(0, |since| since.0);
    let debt = replica.state.debts.lock().get(&slot).map(|debt| debt.epoch);
    if takes_part && debt.is_none_or(|epoch| epoch < since) {
        ship_everything_marked(replica, slot);
        greet_newcomer(replica, slot);
    }
}

/// Sends a peer the contents of all files that are marked as not being everywhere.
pub(super) fn ship_everything_marked(replica: &Arc<LocalReplica>, slot: ReplicaSlot) {
    let marked = replica.store.unshipped().unwrap_or_default();
    replica.engine.suspect_marked(slot, marked);
}

/// Repeats this message on a new connection.
pub(crate) fn say_joined(replica: &LocalReplica, slot: ReplicaSlot) {
    let debt = replica.state.debts.lock();
    if let Some(Debt { epoch, through, .. }) = debt.get(&slot) {
        let (epoch, through) = (*epoch, *through);
        let message = wire::body(wire::Kind::Joined, &Joined { epoch, through });
        replica.state.outbound.send(slot, Lane::Control, message);
    }
}

/// A peer is up to date in this epoch: it needs nothing that was owed up to it.
pub(super) fn forgive(replica: &LocalReplica, slot: ReplicaSlot, epoch: u64) {
    replica
        .state
        .debts
        .lock()
        .retain(|other, debt| *other != slot || debt.epoch > epoch);
}

/// Tells peers that everything owed to them has arrived.
pub(crate) fn look_at_debts(replica: &LocalReplica) {
    let mut debts = replica.state.debts.lock();
    if debts.is_empty() {
        return;
    }
    let paid = replica.engine.settle_debts(&replica.lease, &mut debts);
    for (slot, epoch) in paid {
        // Repeated with every check until the newcomer's lease request shows that it knows.
        let message = wire::body(wire::Kind::CaughtUp, &CaughtUp { epoch });
        replica.state.outbound.send(slot, Lane::Control, message);
    }
}

/// This replica takes part again.
pub(super) fn begin(replica: &Arc<LocalReplica>, since: Epoch) {
    let mut arrival = replica.state.arrival.lock();
    if arrival.epoch < since.0 {
        *arrival = Arrival {
            epoch: since.0,
            ..Arrival::default()
        };
    }
    drop(arrival);
    tokio::spawn(catch_up(replica.clone(), since));
}

async fn catch_up(replica: Arc<LocalReplica>, since: Epoch) {
    tokio::select! {
        () = replica.until_arrived() => {
            up_to_date(&replica, since).await;
        }
        // It may have found that it needs a whole copy. The caller that restarts it waits until nothing uses the store.
        () = replica.stopped() => {}
    }
}

/// What this replica waits for before it is up to date, for people.
pub(super) fn waits_for(replica: &LocalReplica) -> Option<String> {
    if !replica.is_whole() {
        return Some("its copy of the tree is not complete".to_owned());
    }
    replica.lack().map(|lack| match lack {
        Lack::Reports => "not every member of the view has reported".to_owned(),
        Lack::OfTheLost(lost, Some(at)) => format!(
            "it lacks updates of replica {}, which is lost; replica {} has them",
            lost.0, at.0
        ),
        Lack::OfTheLost(lost, None) => {
            format!(
                "it lacks contents of files of replica {}, which is lost",
                lost.0
            )
        }
        Lack::OwedBy(slot) => format!("it does not have everything of replica {} yet", slot.0),
    })
}

/// Whether the members, including this replica, wait for `slot`, a member without a copy. No member is up to date then, and `slot` reports
/// nothing before it has the tree.
pub(crate) fn waits_for_copy(replica: &LocalReplica, slot: ReplicaSlot) -> bool {
    let view = replica.lease.view();
    let news = replica.state.peers.news();
    let mut said = view
        .active
        .iter()
        .filter_map(|other| news.get(other)?.said.as_ref());
    let is_member = |slot| view.active.contains(&slot);
    is_member(replica.slot()) && is_member(slot) && !said.any(|(request, _)| request.up_to_date)
}

/// Whether a member is up to date, as far as this replica has heard.
pub(super) fn is_up_to_date(replica: &LocalReplica, slot: ReplicaSlot) -> bool {
    if slot == replica.slot() {
        return replica.lease.is_up_to_date();
    }
    let news = replica.state.peers.news();
    let said = news.get(&slot).and_then(|news| news.said.as_ref());
    said.is_some_and(|(request, _)| request.up_to_date)
}

async fn up_to_date(replica: &Arc<LocalReplica>, since: Epoch) {
    if !replica.lease.come_up_to_date(since) {
        return;
    }
    replica.state.writers.forget_all();
    replica
        .state
        .peers
        .with_each(|_, peer| peer.rejoin.arrived());
    tracing::info!(epoch = since.0, "this replica is up to date and takes part");
    replica.engine.notify();
    note_complete(replica).await;
}

/// Notes durably that this replica is up to date.
pub(super) async fn note_complete(replica: &LocalReplica) {
    if let Err(error) = replica.note_complete().await {
        // The store has failed, which ends the server.
        tracing::error!(%error, "that the copy is complete cannot be noted");
    }
}

/// A member has entered the view in which this replica takes part again.
pub(crate) fn joined(replica: &Arc<LocalReplica>, from: ReplicaSlot, joined: Joined) {
    let mut arrival = replica.state.arrival.lock();
    if joined.epoch > arrival.epoch {
        *arrival = Arrival {
            epoch: joined.epoch,
            ..Arrival::default()
        };
    }
    if joined.epoch == arrival.epoch {
        arrival.exempt.retain(|(slot, _)| *slot != from);
        arrival.exempt.push((from, joined.through));
    }
    drop(arrival);
    replica.engine.notify();
}

/// A member says that everything it owed this replica has arrived.
pub(crate) fn caught_up(replica: &Arc<LocalReplica>, from: ReplicaSlot, caught_up: CaughtUp) {
    let mut arrival = replica.state.arrival.lock();
    if caught_up.epoch == arrival.epoch && arrival.caught_up.insert(from) {
        drop(arrival);
        replica.engine.notify();
    }
}
