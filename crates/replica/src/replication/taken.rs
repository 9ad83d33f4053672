//! How much of a whole copy was taken so far, on the disk, so that it goes on after a break.
//!
//! What must never enter: what a copy consists of (`base`).

use store::BaseState;
use vfs::{ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;
use crate::state::wire::{self, Taken};

/// From whom rows are being taken, and how many.
pub(super) const TAKEN: &[u8] = b"rows-taken";

/// How much of a copy this replica, which holds nothing, has taken from another one. Rows of a copy that was finished,
/// but not noted as held before a crash, are taken again: nothing can be added to them.
pub(super) fn taken(replica: &LocalReplica, from: ReplicaSlot) -> Option<Taken> {
    if matches!(replica.store.base_state(), Ok(BaseState::Whole)) {
        return None;
    }
    // A store that has failed ends the server elsewhere.
    let facts = replica.store.facts(TAKEN).unwrap_or_default();
    let (slot, taken): (u16, Taken) = wire::decode(&facts.first()?.1).ok()?;
    (slot == from.0).then_some(taken)
}

pub(super) async fn note_taken(
    replica: &LocalReplica,
    from: ReplicaSlot,
    taken: Taken,
) -> Result<()> {
    let value = wire::encode(&(from.0, taken));
    let rows = vec![(TAKEN.to_vec(), Some(value))];
    // Written behind the rows, so that they are there if it is.
    replica.store.put_facts(rows).await.map(drop)
}
