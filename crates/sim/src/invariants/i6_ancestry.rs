//! I6: the ancestry table always equals one rebuilt from the controls and the tree.

use super::Broken;
use crate::world::World;

pub(crate) fn check(world: &World) -> Result<(), Broken> {
    let mut replicas = world.replicas.values();
    match replicas.find(|replica| !replica.core.ancestry_is_exact(&replica.tree)) {
        None => Ok(()),
        Some(replica) => Err(("I6", format!("replica {} miscounts", replica.slot.0))),
    }
}
