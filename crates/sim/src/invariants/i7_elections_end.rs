//! I7: without failures every election ends within a bounded number of message delays, no matter
//! which sites compete, and every site that keeps asking is served within a bounded number of
//! grants.
//!
//! So the time of an operation is bounded for each operation that is served while it waits, itself
//! included. Scripted runs state tighter bounds; runs with lost connections have none.

use super::Broken;
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

pub(crate) fn check(world: &World) -> Result<(), Broken> {
    let turn = slowest_turn(world);
    match world.turn_limit.filter(|limit| turn > *limit) {
        None => Ok(()),
        Some(limit) => {
            let sight =
                format!("an operation took {turn:?} for each one served, at most {limit:?}");
            Err(("I7", sight))
        }
    }
}

/// The longest time of an operation per operation served meanwhile.
fn slowest_turn(world: &World) -> Duration {
    let spans = world.operations.iter().filter_map(|operation| {
        let (_, ended) = operation.outcome?;
        let served = world.operations.iter().filter(|other| {
            let at = other.outcome.map(|(_, at)| at);
            at.is_some_and(|at| operation.begun < at && at <= ended)
        });
        let microseconds = ended.0 - operation.begun.0;
        Some(Duration::from_micros(
            microseconds / served.count().max(1) as u64,
        ))
    });
    spans.max().unwrap_or_default()
}
