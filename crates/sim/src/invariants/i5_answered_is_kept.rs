//! I5: what was answered is there at the end, everywhere. Exceptions: with durability `relaxed`, an administrator may have given it
//! up; with either durability, an administrator may have said that a majority is gone.
//!
//! Before the end it may be frozen if only one replica has it. I3 makes sure that no older version is shown in
//! its place meanwhile.

use super::Broken;
use crate::tree::{Intent, Outcome};
use crate::world::World;

pub(crate) fn check(world: &World) -> Result<(), Broken> {
    if !world.failures {
        return Ok(());
    }
    for (number, operation) in (0..).zip(&world.operations) {
        let done = matches!(operation.outcome, Some((Outcome::Done, _)));
        let write = matches!(operation.intent, Intent::Write(_));
        let given_up = (!world.majority || world.recovered) && world.discarded.contains(&number);
        if !done || write || given_up {
            continue;
        }
        let mut replicas = world.remaining();
        if let Some(replica) = replicas.find(|replica| !replica.done.contains(&number)) {
            let sight = format!(
                "operation {number} was answered and is lost at replica {}: {operation:?}",
                replica.slot.0
            );
            return Err(("I5", sight));
        }
    }
    for (file, closed) in &world.closed {
        let mut replicas = world.holders();
        let older = replicas.find(|replica| {
            let version = replica.tree.version(*file);
            version.is_some_and(|version| version < closed.version)
        });
        if let Some(replica) = older {
            let sight = format!(
                "{file} is older at replica {} than was closed",
                replica.slot.0
            );
            return Err(("I5", sight));
        }
    }
    Ok(())
}
