//! How far the stream of a lost replica is applied by the other survivors.
//!
//! What must never enter: what follows from it.

use std::collections::BTreeMap;

use vfs::ReplicaSlot;

use super::others;
use crate::driver::local_replica::LocalReplica;

/// How far each other survivor, witnesses included, has applied a lost replica's stream, by its latest word in this
/// view.
pub(super) fn applied_by_others(
    replica: &LocalReplica,
    lost: ReplicaSlot,
) -> Option<BTreeMap<ReplicaSlot, u64>> {
    let epoch = replica.lease.view().epoch.0;
    let news = replica.state.peers.news();
    let others = others(replica).into_iter();
    others
        .map(|slot| {
            let (ask, _) = news.get(&slot)?.said.as_ref()?;
            let mut applied = ask.applied.iter();
            let applied = applied.find(|(of, _)| *of == lost.0)?.1;
            (ask.epoch == epoch).then_some((slot, applied))
        })
        .collect()
}
