//! The work of clients of a simulated set, and its results.
//!
//! What must never enter: the places of replicas, and counting.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::trial::{self, Outcome};
use control::{Contention, ReplicaSlot};
use sim::{Intent, Random, World};
use vfs::ObjectId;

use super::contend::{Load, Sites};
use super::count::Count;
use super::rules;
use super::set::{Places, directory, file, finish, slots, stage};
use super::update::{carry_out, make, run_until};

/// The interval between single updates: long enough that the control of the last one has ended everywhere.
pub(super) const APART: Duration = Duration::from_secs(10);

/// The minimum interval between files of a burst.
pub(super) const FILE_EVERY: Duration = Duration::from_millis(5);

/// A burst makes a directory once in this number of files, for the next ones.
pub(super) const FILES_A_DIRECTORY: u64 = 10;

/// The kind of a single update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Single {
    /// A file is made in a directory: answered when a majority has acknowledged.
    Make,
    /// A file is written and closed: answered when all have acknowledged.
    Write,
}

/// Single updates, each of another uncontrolled object, at random replicas.
///
/// # Errors
/// Fails when an update is refused, or the set does not come to rest.
pub(super) fn single(single: Single, seed: u64, replicas: u16, updates: u64) -> Result<Outcome> {
    let places = Places::draw(seed);
    let mut world = stage(&places, replicas, updates, Contention::Forward, seed)?;
    let mut random = Random::new(seed ^ 0x51e);
    let mut count = Count::default();
    let [mut took, mut nearest, mut farthest] = [Duration::ZERO; 3];
    for number in 0..updates {
        let all: Vec<ReplicaSlot> = slots(replicas).collect();
        let home = *random.pick(&all).context("a set has replicas")?;
        let intent = match single {
            Single::Make => make(directory(number)?, 1, false),
            Single::Write => Intent::Write(file(number)?),
        };
        took += carry_out(&mut world, home, intent)?;
        let trips = places.round_trips(replicas, home);
        nearest += rules::majority(&trips);
        farthest += rules::everybody(&trips);
        run_until(&mut world, APART * (u32::try_from(number)? + 1))?;
        let quiet = world
            .replicas
            .values()
            .all(|one| one.core.unfinished() == 0);
        ensure!(quiet, "a control outlasts the {APART:?} of its update");
        count.add(&sent(&mut world), &[home])?;
    }
    finish(&mut world)?;
    ensure!(sent(&mut world).is_empty(), "something was said at rest");
    let mut outcome = count.figures(updates);
    let mean = |sum: Duration| sum.as_secs_f64() / updates as f64;
    let times = [
        ("first_update_s", mean(took)),
        ("majority_s", mean(nearest)),
        ("everybody_s", mean(farthest)),
    ];
    outcome.extend(trial::named(times));
    Ok(outcome)
}

/// The number of updates in a burst of `files` files: each file is made, written and closed, and there are directories.
pub(super) fn updates_of_a_burst(files: u64) -> u64 {
    2 * files + files.div_ceil(FILES_A_DIRECTORY)
}

/// A client of the first replica unpacks files, one after another, in an uncontrolled directory.
///
/// # Errors
/// As above.
pub(super) fn burst(seed: u64, replicas: u16, files: u64) -> Result<Outcome> {
    let places = Places::draw(seed);
    let home = ReplicaSlot(1);
    let mut world = stage(&places, replicas, 1, Contention::Forward, seed)?;
    let mut place = directory(0)?;
    let (mut first, mut took) = (None, Duration::ZERO);
    for number in 0..files {
        if number % FILES_A_DIRECTORY == 0 {
            let name = files + number;
            let made = carry_out(&mut world, home, make(directory(0)?, name, true))?;
            first.get_or_insert(made);
            took += made;
            place = entry(&mut world, home, directory(0)?, name)?;
        }
        took += carry_out(&mut world, home, make(place, number, false))?;
        let file = entry(&mut world, home, place, number)?;
        took += carry_out(&mut world, home, Intent::Write(file))?;
        let next = Duration::from_micros(world.now.0) + FILE_EVERY;
        run_until(&mut world, next)?;
    }
    finish(&mut world)?;
    let mut count = Count::default();
    count.add(&sent(&mut world), &[home])?;
    let updates = updates_of_a_burst(files);
    let trips = places.round_trips(replicas, home);
    let mut outcome = count.figures(updates);
    let first = first.context("a burst has files")?;
    let times = [
        ("first_update_s", first.as_secs_f64()),
        ("mean_update_s", took.as_secs_f64() / updates as f64),
        ("majority_s", rules::majority(&trips).as_secs_f64()),
        ("everybody_s", rules::everybody(&trips).as_secs_f64()),
    ];
    outcome.extend(trial::named(times));
    Ok(outcome)
}

/// The first two replicas make files, some of them in a directory that both use.
///
/// # Errors
/// As above.
pub(super) fn contend(
    contention: Contention,
    places: &Places,
    seed: u64,
    replicas: u16,
    updates: u64,
) -> Result<Outcome> {
    let mut world = stage(places, replicas, 3, contention, seed)?;
    let mut sites = Sites::begin(Load { updates, seed })?;
    sites.work(&mut world)?;
    finish(&mut world)?;
    let times = sites.times(&world)?;
    let mut count = Count::default();
    count.add(&sent(&mut world), &Sites::SLOTS)?;
    let mut outcome = count.figures(2 * updates);
    let own = count.proposals_without(directory(0)?) as f64 / Sites::SLOTS.len() as f64;
    outcome.insert("own_proposals_a_site".to_owned(), own);
    outcome.extend(times);
    Ok(outcome)
}

fn entry(world: &mut World, home: ReplicaSlot, directory: ObjectId, name: u64) -> Result<ObjectId> {
    let entries = world.replica(home).tree.entries(directory);
    let found = entries.and_then(|entries| entries.get(&name)).copied();
    found.context("what was made has its name")
}

/// The messages since the last call.
fn sent(world: &mut World) -> Vec<sim::Sent> {
    world.sent.replace(Vec::new()).unwrap_or_default()
}
