//! I8: no operation waits for ever, and at rest no control is left anywhere.

use super::Broken;
use crate::world::{Operation, World};

pub(crate) fn check(world: &World) -> Result<(), Broken> {
    for replica in world.remaining() {
        if let Some(lack) = world.unrest(replica) {
            let sight = format!("replica {} {lack}", replica.slot.0);
            return Err(("I8", sight));
        }
    }
    let waits = |op: &Operation| op.outcome.is_none() && !world.gone.contains(&op.home);
    let mut operations = (0u64..).zip(&world.operations);
    if let Some((number, operation)) = operations.find(|(_, op)| waits(op)) {
        let sight = format!("operation {number} waits for ever: {operation:?}");
        return Err(("I8", sight));
    }
    for replica in world.remaining() {
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
