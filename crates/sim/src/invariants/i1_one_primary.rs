//! I1: at no instant do two replicas both admit updates to one object.

use super::Broken;
use crate::world::World;
use std::collections::BTreeSet;
use vfs::ObjectId;

pub(crate) fn check(world: &World) -> Result<(), Broken> {
    let busy = world
        .replicas
        .values()
        .filter(|r| r.core.own_controls().next().is_some());
    let busy: Vec<_> = busy.collect();
    if busy.len() < 2 {
        return Ok(());
    }
    let objects: BTreeSet<ObjectId> = busy.iter().flat_map(|r| r.tree.objects()).collect();
    for object in objects {
        let primaries: Vec<u16> = busy
            .iter()
            .filter(|replica| replica.is_primary(object))
            .map(|replica| replica.slot.0)
            .collect();
        if primaries.len() > 1 {
            let sight = format!("replicas {primaries:?} are all primary for {object}");
            return Err(("I1", sight));
        }
    }
    Ok(())
}
