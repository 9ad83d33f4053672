//! What must hold after every step, and what must hold when all is quiet. One invariant a file.
//!
//! An invariant looks at the whole set at one instant, which no replica could; it changes nothing.

mod i1_one_primary;
mod i2_no_conflicting_grants;
mod i3_closed_is_seen;
mod i4_identical_copies;
mod i6_ancestry;
mod i7_elections_end;
mod i8_nobody_waits_for_ever;

pub use i3_closed_is_seen::Closed;
pub use i7_elections_end::slower_than;

use crate::world::World;

/// The name of the invariant and what was seen instead.
pub(crate) type Broken = (&'static str, String);

/// Checks what must hold at every instant.
pub(crate) fn check_step(world: &World) -> Result<(), Broken> {
    i1_one_primary::check(world)?;
    i2_no_conflicting_grants::check(world)?;
    i3_closed_is_seen::check(world)?;
    i6_ancestry::check(world)
}

/// Checks what must hold once nothing is under way any more.
pub(crate) fn check_rest(world: &World) -> Result<(), Broken> {
    i8_nobody_waits_for_ever::check(world)?;
    i4_identical_copies::check(world)
}
