//! Files of which a lost replica's data is missing here: what of them is sent, to whom, and what is taken from whom.
//!
//! What must never enter: how it is found out who has the best of a file (`membership::losses`).

use std::collections::BTreeMap;

use peer::Lane;
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::local_replica::LocalReplica;
use crate::state::losses::{Equalling, best};

/// Whether this replica, which lacks some of a file, sends what it has because it has the best of it.
pub(crate) fn supplies(replica: &LocalReplica, to: ReplicaSlot, file: ObjectId) -> bool {
    let all = replica.state.losses.equalling();
    let mut supplied = all.values().filter_map(|one| one.supplies.get(&file));
    supplied.any(|receivers| receivers.contains(&to))
}

/// Whether a peer has the best of a file of which a lost replica had sent this one only a part.
pub(crate) fn is_supplied_by(replica: &LocalReplica, from: ReplicaSlot, file: ObjectId) -> bool {
    let others = replica.holders();
    let all = replica.state.losses.equalling();
    is_best_of_one(&all, (replica.slot(), &others), from, file)
}

/// Whether a peer has the best of what one of the lost replicas made of a file, by what all survivors, this one first, have told.
pub(crate) fn is_best_of_one(
    all: &BTreeMap<ReplicaSlot, Equalling>,
    (own, others): (ReplicaSlot, &[ReplicaSlot]),
    from: ReplicaSlot,
    file: ObjectId,
) -> bool {
    all.values().any(|equalling| {
        let told = equalling.told(own, others);
        let best = told.and_then(|told| best(&told, file));
        equalling.own.contains_key(&file) && best.is_some_and(|best| best.slot == from)
    })
}

/// Whether a peer supplies a file because it has the best of what a lost replica made of it, and that is missing here.
pub(crate) fn needs_from(replica: &LocalReplica, from: ReplicaSlot, file: ObjectId) -> bool {
    let view = replica.lease.view();
    let mut missing = replica.store.lacks_data_of(file).into_iter();
    missing.any(|maker| !view.active.contains(&maker)) && is_supplied_by(replica, from, file)
}

/// Whether another replica than the sender, whose data of a file is missing here, is in contact: it sends all of that itself, and what the
/// sender has of it would take the place of what has come. Not what the sender has of members, where it has all of that (`whole`): they
/// may wait for it themselves, and send nothing before (counterexample 64).
pub(crate) fn is_back(
    replica: &LocalReplica,
    file: ObjectId,
    from: ReplicaSlot,
    whole: bool,
) -> bool {
    let view = replica.lease.view();
    let comes = |maker: &ReplicaSlot| match view.active.contains(maker) {
        true => !whole,
        false => replica.state.outbound.is_connected(*maker, Lane::Control),
    };
    let missing = replica.store.lacks_data_of(file).into_iter();
    missing
        .filter(|maker| *maker != from)
        .any(|maker| comes(&maker))
}

/// Takes the mark off a file whose contents are here.
pub(crate) async fn settle_flagged(
    replica: &LocalReplica,
    from: ReplicaSlot,
    file: ObjectId,
    position: u64,
) {
    if let Err(error) = replica.store.note_complete(file, from, position).await {
        tracing::error!(%error, %file, "a file cannot be marked complete");
    }
}
