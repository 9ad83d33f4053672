//! I4: when everything is quiet, all replicas are identical, and no directory lies below itself.

use super::Broken;
use crate::world::World;

pub(crate) fn check(world: &World) -> Result<(), Broken> {
    let mut replicas = world.remaining();
    let Some(first) = replicas.next() else {
        return Ok(());
    };
    if first.tree.has_cycle() {
        let sight = String::from("a directory lies below itself");
        return Err(("I4", sight));
    }
    if let Some(other) = replicas.find(|replica| replica.tree != first.tree) {
        let sight = format!(
            "replicas {} and {} differ: {:?} {:?}",
            first.slot.0, other.slot.0, first.tree, other.tree
        );
        return Err(("I4", sight));
    }
    Ok(())
}
