//! Updates of a lost replica that only a witness has received.
//!
//! The witness relays them like any other survivor. It may be unable to, because messages are kept in memory only, or because the set decided to
//! go on without them. Then its rows would differ from the others' for ever. A witness never counts as holding an update (rule 36), so the
//! witness gives way.

use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::replication::base;

/// A replica outside the view of whose stream this witness has more than any member that holds contents.
pub(super) fn beyond_all(replica: &LocalReplica) -> Option<ReplicaSlot> {
    let view = replica.lease.view();
    let witnesses = replica.engine.witnesses();
    let news = replica.state.peers.news();
    let holders: Vec<ReplicaSlot> = view.active.difference(&witnesses).copied().collect();
    let mut lost = replica.state.inboxes.followed().into_iter();
    lost.find(|lost| {
        let here = replica.state.inboxes.acknowledged(*lost);
        let applied = holders.iter().map(|holder| {
            let (request, _) = news.get(holder)?.said.as_ref()?;
            let of_lost = request.applied.iter().find(|(of, _)| *of == lost.0);
            (request.epoch == view.epoch.0).then_some(of_lost?.1)
        });
        // Every member must have reported.
        let most = applied.collect::<Option<Vec<u64>>>();
        let most = most.and_then(|applied| applied.into_iter().max());
        !view.active.contains(lost) && most.is_some_and(|most| most < here)
    })
}

/// Gives up this witness's copy of the rows; its new incarnation takes a replica's copy.
pub(super) async fn begin_anew(replica: &LocalReplica, reason: &str) {
    match base::give_up_copy(replica, None).await {
        Ok(()) => replica.lease.leave(reason),
        // The store has failed, which ends the server.
        Err(error) => tracing::error!(%error, "the witness cannot give its copy up"),
    }
}
