//! I8: no operation waits for ever, and when all is quiet no control is left, anywhere.

use super::Broken;
use crate::world::World;

pub(crate) fn check(world: &World) -> Result<(), Broken> {
    for replica in world.replicas.values() {
        if let Some(lack) = world.unrest(replica) {
            let sight = format!("replica {} {lack}", replica.slot.0);
            return Err(("I8", sight));
        }
    }
    let mut operations = (0u64..).zip(&world.operations);
    if let Some((number, operation)) = operations.find(|(_, op)| op.outcome.is_none()) {
        let sight = format!("operation {number} waits for ever: {operation:?}");
        return Err(("I8", sight));
    }
    for replica in world.replicas.values() {
        if let Some(orphan) = replica.core.acknowledged().next() {
            let sight = format!("replica {} keeps {orphan:?} for ever", replica.slot.0);
            return Err(("I8", sight));
        }
        if replica.core.unfinished() > 0 {
            let sight = format!("replica {} never ends its controls", replica.slot.0);
            return Err(("I8", sight));
        }
    }
    Ok(())
}
