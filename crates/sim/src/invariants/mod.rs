//! What must hold after every step, and what must hold at rest. One invariant per file.
//!
//! An invariant sees the whole set at one instant, which no replica can; it changes nothing.

mod bounded_memory;
mod i1_one_primary;
mod i2_no_conflicting_grants;
mod i3_closed_is_seen;
mod i3_kept_entries;
mod i4_identical_copies;
mod i5_answered_is_kept;
mod i6_ancestry;
mod i7_elections_end;
mod i8_nobody_waits_for_ever;
mod no_ghosts;

pub use i3_closed_is_seen::Closed;
pub use i7_elections_end::slower_than;

use crate::world::World;
use control::ReplicaSlot;

/// The name of the invariant and the observation that breaks it.
pub(crate) type Broken = (&'static str, String);

/// Checks what must hold at every instant, as far as a step at `slot` can have changed it.
pub(crate) fn check_step(world: &World, slot: ReplicaSlot) -> Result<(), Broken> {
    let Some(replica) = world.replicas.get(&slot).filter(|replica| replica.runs()) else {
        return Ok(());
    };
    i1_one_primary::check(world, replica)?;
    i2_no_conflicting_grants::check(world, replica)?;
    i3_closed_is_seen::check(world, replica)?;
    i3_kept_entries::check(world, replica)?;
    i6_ancestry::check(replica)
}

/// Checks what must hold at rest.
pub(crate) fn check_rest(world: &World) -> Result<(), Broken> {
    i8_nobody_waits_for_ever::check(world)?;
    no_ghosts::check(world)?;
    bounded_memory::check(world)?;
    i7_elections_end::check(world)?;
    i4_identical_copies::check(world)?;
    i5_answered_is_kept::check(world)
}
