//! A set of replicas in cities of the world: their places, all delays, and the tree at the beginning.
//!
//! What must never enter: the work of clients.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control::{Contention, ReplicaSlot, Settings};
use sim::{Edit, Lane, Plan, Random, World};
use vfs::ObjectId;

use super::cities::{CITIES, City, delay};

/// The maximum random addition to the delay of a packet, in hundredths.
pub(super) const JITTER_PERCENT: u32 = 10;

/// Objects of the first tree belong to no replica of the set.
const PLANTER: ReplicaSlot = ReplicaSlot(u16::MAX);

/// Everything measured here takes less virtual time; a longer time is an error.
const LIMIT: Duration = Duration::from_secs(3600);

/// Up to this size of a set every invariant is checked after every step, in larger sets only at rest.
pub(super) const CHECKED_REPLICAS_MAX: u16 = 4;

/// The places of the replicas of a set, and so their distances.
#[derive(Debug, Clone)]
pub(super) enum Places {
    /// In cities, in this order. A larger set with the same seed includes all cities of a smaller one, and its first replica is
    /// in the same city.
    Cities(Vec<City>),
    /// The first two at this one-way distance, and all others at another one from these and from each other.
    Apart {
        /// Between the first two.
        first_two: Duration,
        /// Between all others.
        others: Duration,
    },
}

impl Places {
    /// Draws the order in which cities are taken.
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xc171e5);
        let mut cities = CITIES.to_vec();
        // Fisher and Yates.
        for last in (1..cities.len()).rev() {
            let drawn = random.below(last as u64 + 1);
            cities.swap(last, usize::try_from(drawn).unwrap_or(0));
        }
        Self::Cities(cities)
    }

    /// Round trips from one replica of a set of this size to all others, the nearest first, without jitter.
    pub(super) fn round_trips(&self, replicas: u16, from: ReplicaSlot) -> Vec<Duration> {
        let others = slots(replicas).filter(|other| *other != from);
        let mut trips: Vec<Duration> = others.map(|other| 2 * self.delay(from, other)).collect();
        trips.sort_unstable();
        trips
    }

    /// The time of a packet from one replica to another, without jitter.
    fn delay(&self, one: ReplicaSlot, other: ReplicaSlot) -> Duration {
        match self {
            Self::Cities(cities) => {
                let of = |slot: ReplicaSlot| cities[usize::from(slot.0 - 1)];
                delay(of(one), of(other))
            }
            Self::Apart { first_two, others } => match one.0 <= 2 && other.0 <= 2 {
                true => *first_two,
                false => *others,
            },
        }
    }
}

/// All slots of a set.
pub(super) fn slots(replicas: u16) -> impl Iterator<Item = ReplicaSlot> {
    (1..=replicas).map(ReplicaSlot)
}

/// Sets up the world: replicas at these places, all with a tree of directories below the root, with a file in each.
/// Directories and files are numbered from 0.
///
/// # Errors
/// Fails when there are fewer cities than replicas.
pub(super) fn stage(
    places: &Places,
    replicas: u16,
    directories: u64,
    contention: Contention,
    seed: u64,
) -> Result<World> {
    ensure!(
        usize::from(replicas) <= CITIES.len(),
        "there are not {replicas} cities"
    );
    let settings = Settings {
        directory_contention: contention,
        ..Settings::default()
    };
    let mut plan = Plan::still(replicas, Duration::ZERO, settings);
    plan.seed = seed;
    plan.links.jitter_percent = JITTER_PERCENT;
    for from in slots(replicas) {
        for to in slots(replicas).filter(|to| *to != from) {
            let delay = places.delay(from, to);
            for lane in [Lane::Control, Lane::Stream, Lane::Data, Lane::Forward] {
                plan.links.set(from, to, lane, delay);
            }
        }
    }
    let mut world = World::new(&plan);
    world.steps_checked = replicas <= CHECKED_REPLICAS_MAX;
    let mut edits = Vec::new();
    for number in 0..directories {
        let (directory, file) = (directory(number)?, file(number)?);
        edits.push(enter(ObjectId::ROOT, directory, true));
        edits.push(enter(directory, file, false));
    }
    world.plant(&edits);
    world.sent = Some(Vec::new());
    Ok(world)
}

/// Lets everything end, and checks that no operation waits, no control is left and all copies are identical.
///
/// # Errors
/// The first failed check.
pub(super) fn finish(world: &mut World) -> Result<()> {
    world
        .run(LIMIT)
        .map_err(|broken| anyhow::anyhow!("{broken}"))
}

/// One of the directories.
///
/// # Errors
/// Fails for numbers that are too large for objects.
pub(super) fn directory(number: u64) -> Result<ObjectId> {
    object(2 * number + 1)
}

/// The file that is in the directory with this number from the beginning.
///
/// # Errors
/// As above.
pub(super) fn file(number: u64) -> Result<ObjectId> {
    object(2 * number + 2)
}

fn object(number: u64) -> Result<ObjectId> {
    ObjectId::new(PLANTER, number).context("there are not that many objects")
}

/// An object's name is its identifier.
fn enter(parent: ObjectId, object: ObjectId, is_directory: bool) -> Edit {
    Edit::Enter {
        parent,
        name: object.as_u64(),
        object,
        birth: Some(is_directory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_its_own_cities_and_larger_sets_contain_smaller_ones() {
        let first = ReplicaSlot(1);
        let trips = |seed, replicas| Places::draw(seed).round_trips(replicas, first);
        assert_ne!(trips(1, 4), trips(2, 4));
        let (few, many) = (trips(1, 4), trips(1, 8));
        assert_eq!((few.len(), many.len()), (3, 7));
        assert!(few.iter().all(|trip| many.contains(trip)));
        assert!(many.is_sorted());
    }

    #[test]
    fn places_can_be_laid_out() {
        let [first_two, others] = [140, 70].map(Duration::from_millis);
        let places = Places::Apart { first_two, others };
        let trips = |slot| places.round_trips(4, ReplicaSlot(slot));
        assert_eq!(trips(2), [2 * others, 2 * others, 2 * first_two]);
        assert_eq!(trips(3), [2 * others; 3]);
    }
}
