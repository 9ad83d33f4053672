//! At rest, a core remembers only little, however much has happened (rule 29): for each replica a floor of ended controls
//! and a few runs of their numbers, and no controls, proposals, places or contents.

use super::Broken;
use crate::world::World;
use control::Sizes;

/// Floors and runs for each replica that ever existed.
const ENDED_EACH: usize = 8;

pub(crate) fn check(world: &World) -> Result<(), Broken> {
    let quiet = Sizes {
        ended: ENDED_EACH * world.replicas.len(),
        timers: usize::MAX,
        peers: 2 * world.replicas.len(),
        ..Sizes::default()
    };
    for replica in world.remaining() {
        let sizes = replica.core.sizes();
        if sizes.max(quiet) != quiet {
            let sight = format!("replica {} remembers {sizes:?}", replica.slot.0);
            return Err(("29 (memory is bounded)", sight));
        }
    }
    Ok(())
}
