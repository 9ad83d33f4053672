//! One update of a simulated client: its intent, and its time.
//!
//! What must never enter: the choice of updates and clients.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use control::{Moment, ReplicaSlot};
use sim::{Intent, World};
use vfs::ObjectId;

/// Nothing may take longer than this, in virtual time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Making something in a directory.
pub(super) fn make(parent: ObjectId, name: u64, directory: bool) -> Intent {
    Intent::Create {
        parent,
        name,
        directory,
    }
}

/// Lets a client carry out an operation, and returns its time.
///
/// # Errors
/// Fails when it was refused, is not answered in time, or an invariant is broken.
pub(super) fn carry_out(world: &mut World, home: ReplicaSlot, intent: Intent) -> Result<Duration> {
    let begun = world.now;
    let number = world.submit(Duration::ZERO, home, intent);
    let limit = Duration::from_micros(begun.0) + PATIENCE;
    let ended = world
        .run_until_ended(number, limit)
        .map_err(|broken| anyhow!("{broken}"))?;
    let ended = ended.with_context(|| format!("{intent:?} was not answered"))?;
    took(begun, ended)
}

/// The time of an operation from its beginning to its end.
///
/// # Errors
/// Fails when it was refused.
pub(super) fn took(begun: Moment, ended: (sim::Outcome, Moment)) -> Result<Duration> {
    ensure!(ended.0 == sim::Outcome::Done, "an update was refused");
    Ok(Duration::from_micros(ended.1.0 - begun.0))
}

/// Runs all events until this time.
///
/// # Errors
/// Fails when an invariant is broken.
pub(super) fn run_until(world: &mut World, until: Duration) -> Result<()> {
    world.run_until(until).map_err(|broken| anyhow!("{broken}"))
}
