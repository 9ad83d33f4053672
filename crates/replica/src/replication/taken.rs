//! How much of a whole copy has been taken so far, kept on the disk, so that it continues after a break.
//!
//! What must never enter: what a copy consists of (`base`).

use store::BaseState;
use vfs::{ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;
use crate::state::wire::{self, Taken};

/// The replica from which rows are being taken, and how many were taken.
pub(super) const TAKEN: &[u8] = b"rows-taken";

/// How much of a copy this replica, which holds nothing, has taken from another one. If a crash came after the last row and before the copy was noted
/// as held, the rows are taken again: no rows can be added to them.
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
    // Written behind the rows: if this fact is there, so are the rows.
    replica.store.put_facts(rows).await.map(drop)
}
