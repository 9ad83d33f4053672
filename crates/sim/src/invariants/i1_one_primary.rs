//! I1: at no instant do two replicas both admit updates to one object. Without a lease nothing is admitted.

use super::Broken;
use crate::replica::Replica;
use crate::world::World;

pub(crate) fn check(world: &World, changed: &Replica) -> Result<(), Broken> {
    let is_busy = |replica: &&Replica| {
        replica.core.own_controls().next().is_some() && world.may_answer(replica.slot)
    };
    let others = world.replicas.values().filter(is_busy);
    let others: Vec<_> = others.filter(|other| other.slot != changed.slot).collect();
    if others.is_empty() || !is_busy(&changed) {
        return Ok(());
    }
    for object in changed.tree.objects() {
        if !changed.is_primary(object) {
            continue;
        }
        if let Some(other) = others.iter().find(|other| other.is_primary(object)) {
            let primaries = [changed.slot.0, other.slot.0];
            let sight = format!("replicas {primaries:?} are both primary for {object}");
            return Err(("I1", sight));
        }
    }
    Ok(())
}
