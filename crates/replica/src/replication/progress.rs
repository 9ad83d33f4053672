//! How far a replica is on its way back into the view, as seen by the replicas that send what it lacks.
//!
//! About once a second each sending replica reports how much is left; the returning replica adds up the reports. The time left follows from how fast
//! the rest has shrunk lately, new changes included.
//!
//! What must never enter: what is sent when, and whether a replica is admitted.

use std::sync::Arc;

use peer::Lane;
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::rejoins::{Remainder, Stage};
use crate::state::wire;

/// The sizes of at most this many files are looked up at a time.
const LOOKED_AT: usize = 4096;

/// Finds out what the returning replicas lack, and tells them.
pub(crate) fn tell(replica: &Arc<LocalReplica>) {
    let rejoining = rejoining(replica);
    replica.state.peers.with_each(|slot, peer| {
        if !rejoining.contains(&slot) {
            peer.rejoin.end_of_peer();
        }
    });
    for slot in rejoining {
        let Some(remainder) = remainder(replica, slot) else {
            continue;
        };
        replica
            .state
            .peers
            .with(slot, |peer| peer.rejoin.note_sent(remainder));
        let message = wire::body(wire::Kind::Remainder, &remainder);
        replica.state.outbound.send(slot, Lane::Control, message);
    }
}

/// The connected replicas that are outside the view, or in it and not up to date.
fn rejoining(replica: &LocalReplica) -> Vec<ReplicaSlot> {
    if !replica.is_whole() {
        return Vec::new();
    }
    let (view, news) = (replica.lease.view(), replica.state.peers.news());
    let others = replica.state.members.others().into_iter();
    let rejoining = others.filter(|slot| {
        let said = news.get(slot).and_then(|news| news.said.as_ref());
        let behind = said.is_some_and(|(request, _)| !request.up_to_date);
        replica.state.outbound.is_in_session(*slot) && (!view.active.contains(slot) || behind)
    });
    rejoining.collect()
}

fn remainder(replica: &LocalReplica, slot: ReplicaSlot) -> Option<Remainder> {
    if let Some(supply) = replica.state.conversations.supply(slot) {
        return Some(supply);
    }
    let (bytes_done, begun_at) = replica.state.conversations.course(slot)?;
    let lacking = replica.engine.lacking(slot, u64::MAX - 1, LOOKED_AT)?;
    let known = lacking.bytes < u64::MAX;
    let mut remainder = Remainder {
        stage: Stage::ByLog,
        objects_done: lacking.applied.saturating_sub(begun_at),
        objects_left: lacking.updates.max(lacking.files as u64),
        bytes_done,
        bytes_left: known.then_some(lacking.bytes),
    };
    if let Some(files) = lacking.listed {
        let sizes = files
            .into_iter()
            .filter_map(|file| replica.store.file_size(file).ok());
        remainder.bytes_left = Some(sizes.fold(0, u64::saturating_add));
    }
    Some(remainder)
}
