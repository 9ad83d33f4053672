//! I4: at rest, all replicas are identical, except that a witness has no contents, and no
//! directory lies below itself.

use super::Broken;
use crate::replica::Replica;
use crate::world::World;

pub(crate) fn check(world: &World) -> Result<(), Broken> {
    let Some(first) = world.holders().next() else {
        return Ok(());
    };
    let mut replicas = world.remaining();
    if first.tree.has_cycle() {
        let sight = String::from("a directory lies below itself");
        return Err(("I4", sight));
    }
    let differs = |replica: &&Replica| match world.holds_data(replica.slot) {
        true => replica.tree != first.tree,
        false => !replica.tree.has_names_of(&first.tree),
    };
    if let Some(other) = replicas.find(differs) {
        let sight = format!(
            "replicas {} and {} differ: {:?} {:?}",
            first.slot.0, other.slot.0, first.tree, other.tree
        );
        return Err(("I4", sight));
    }
    Ok(())
}
