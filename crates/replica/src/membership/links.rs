//! Links to the other members: which are in contact, and how far each is behind.

use std::collections::BTreeSet;

use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::wire::LinkView;

/// The peers in contact now.
pub(crate) fn connected(replica: &LocalReplica) -> BTreeSet<ReplicaSlot> {
    let transport = replica.endpoint.get();
    let transport = transport.map_or_else(Vec::new, peer::Endpoint::status);
    let with_lanes = transport.iter().filter(|wire| wire.lanes_connected > 0);
    let slots = with_lanes.map(|wire| wire.slot);
    slots
        .filter(|slot| replica.state.outbound.is_in_session(*slot))
        .collect()
}

/// The links to all others, for the others to show.
pub(crate) fn links(replica: &LocalReplica) -> Vec<LinkView> {
    let connected = connected(replica);
    let wires = replica
        .endpoint
        .get()
        .map_or_else(Vec::new, peer::Endpoint::status);
    let round_trip = |slot: ReplicaSlot| {
        let wire = wires.iter().find(|wire| wire.slot == slot);
        let rtt = wire.filter(|_| connected.contains(&slot))?.rtt?;
        u64::try_from(rtt.as_micros()).ok()
    };
    let lags = replica.engine.lags().into_iter();
    let lags = lags.filter(|(slot, _)| replica.state.members.is_member(*slot));
    lags.map(|(slot, lag)| LinkView {
        to: slot.0,
        round_trip_us: round_trip(slot),
        lag_updates: lag.updates,
        lag_files: lag.files,
    })
    .collect()
}
