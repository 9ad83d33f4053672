//! Links to the other members: who can be talked to, and how far each is behind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vfs::ReplicaSlot;

use crate::driver::engine::Guard;
use crate::driver::replica_state::ReplicaState;
use crate::state::wire::Link;

/// What the ledger says of one peer.
pub(crate) struct Lag {
    pub(crate) updates: u64,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) seconds: f64,
}

/// The peers that can be talked to now.
pub(crate) fn connected(shared: &ReplicaState) -> BTreeSet<ReplicaSlot> {
    let transport = shared.endpoint.get();
    let transport = transport.map_or_else(Vec::new, peer::Endpoint::status);
    let with_lanes = transport.iter().filter(|wire| wire.lanes_connected > 0);
    let slots = with_lanes.map(|wire| wire.slot);
    slots
        .filter(|slot| shared.outbound.is_in_session(*slot))
        .collect()
}

/// The links to all others, for them to show.
pub(crate) fn links(shared: &ReplicaState) -> Vec<Link> {
    let connected = connected(shared);
    let wires = shared
        .endpoint
        .get()
        .map_or_else(Vec::new, peer::Endpoint::status);
    let round_trip = |slot: ReplicaSlot| {
        let wire = wires.iter().find(|wire| wire.slot == slot);
        let rtt = wire.filter(|_| connected.contains(&slot))?.rtt?;
        u64::try_from(rtt.as_micros()).ok()
    };
    let lags = shared.engine.with_core(lags).into_iter();
    let lags = lags.filter(|(slot, _)| shared.is_member(*slot));
    lags.map(|(slot, lag)| Link {
        to: slot.0,
        round_trip_us: round_trip(slot),
        lag_updates: lag.updates,
        lag_files: lag.files,
    })
    .collect()
}

pub(crate) fn lags(guard: &mut Guard<'_>) -> BTreeMap<ReplicaSlot, Lag> {
    let ledger = &guard.ledger;
    let peers = ledger.unshipped.peers();
    let lags = peers.map(|(slot, backlog)| {
        let applied = ledger.applied.get(&slot).copied().unwrap_or(0);
        let since = backlog
            .oldest()
            .map(|oldest| guard.now.0 - oldest.0.min(guard.now.0));
        let lag = Lag {
            updates: ledger.last_position.saturating_sub(applied),
            bytes: backlog.bytes(),
            files: backlog.files() as u64,
            seconds: since.map_or(0.0, |micros| Duration::from_micros(micros).as_secs_f64()),
        };
        (slot, lag)
    });
    lags.collect()
}
