//! I7: without failures every election ends within a bounded number of message delays.
//!
//! The bound depends on the scenario, so the caller states it; runs with lost connections have none.

use crate::world::World;
use std::time::Duration;

/// The operations that took longer than `bound`, or have not ended.
#[must_use]
pub fn slower_than(world: &World, bound: Duration) -> Vec<u64> {
    let operations = (0..).zip(&world.operations);
    let slow = operations.filter(|(_, operation)| {
        let ended = operation.outcome.map(|(_, at)| at);
        ended.is_none_or(|at| at > operation.begun.after(bound))
    });
    slow.map(|(number, _)| number).collect()
}
