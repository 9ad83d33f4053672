//! What one simulated run is made of, drawn from its seed.

use crate::network::{Lane, Links};
use crate::random::Random;
use control::{Contention, ReplicaSlot, Settings};
use std::time::Duration;

/// The circumstances of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything else.
    pub seed: u64,
    /// How many replicas there are.
    pub replicas: u16,
    /// How many of them exist; smaller than `replicas` only in a reduced run.
    pub present: u16,
    /// Which operations, and then which lost connections, take place: a bit for each, and all beyond.
    pub mask: u64,
    /// How many operations their clients begin.
    pub operations: u32,
    /// Within which time they begin.
    pub span: Duration,
    /// How long the carrying out of a write may take; its controls are held meanwhile.
    pub slowest_write: Duration,
    /// How often two replicas lose and renew their connection.
    pub reconnects: u32,
    /// The links between the replicas.
    pub links: Links,
    /// The cores' settings, the same at every replica.
    pub settings: Settings,
}

/// No set is larger.
pub(crate) const MAXIMUM: u16 = 9;

const LANES: [Lane; 4] = [Lane::Control, Lane::Stream, Lane::Data, Lane::Forward];

impl Plan {
    /// Whether the event that was drawn as this one takes place.
    pub(crate) fn includes(&self, event: u32) -> bool {
        event >= u64::BITS || self.mask >> event & 1 == 1
    }

    /// How long an operation may take for each one that is served meanwhile (I7): the grace after a revoke, and a
    /// slow write, for each of the four objects of a rename, and five times there and back on the slowest link. Lost
    /// connections take away the limit.
    pub(crate) fn turn_limit(&self) -> Option<Duration> {
        let limit =
            4 * (self.settings.revoke_grace + self.slowest_write) + 10 * self.links.longest();
        (self.operations > 0 && self.reconnects == 0).then_some(limit)
    }

    /// Draws the circumstances: 2 to 9 replicas, delays of 0.1 to 300 ms that differ by direction and
    /// lane, with and without reordering and lost connections.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let replicas = 2 + u16::try_from(random.below(8))
            .unwrap_or(0)
            .min(random_cap(&mut random));
        let mut settings = Settings::default();
        if random.chance(2) {
            settings.directory_contention = Contention::Wait;
        }
        settings.strategies.deep_control = !random.chance(4);
        settings.strategies.upgrade = random.chance(2);
        settings.strategies.file_control_under_deep = !random.chance(4);
        settings.upgrade_threshold = 3;
        let reconnects = if random.chance(2) { 20 } else { 0 };
        let mut links = Links::new(random.chance(2));
        draw_delays(&mut random, &mut links, replicas);
        Plan {
            seed,
            replicas,
            present: replicas,
            mask: u64::MAX,
            slowest_write: slowest_write(seed),
            operations: 40,
            span: Duration::from_millis(200 + random.below(6000)),
            reconnects,
            links,
            settings,
        }
    }

    /// Replicas at equal distances, nothing lost, nothing overtaken, no operations yet: the stage of
    /// a scripted scenario.
    #[must_use]
    pub fn still(replicas: u16, delay: Duration, settings: Settings) -> Plan {
        let mut links = Links::new(false);
        for (from, to) in pairs(replicas) {
            for lane in LANES {
                links.set(from, to, lane, delay);
            }
        }
        Plan {
            seed: 0,
            replicas,
            present: replicas,
            mask: u64::MAX,
            slowest_write: Duration::ZERO,
            operations: 0,
            span: Duration::ZERO,
            reconnects: 0,
            links,
            settings,
        }
    }
}

/// Up to three times the grace after a revoke, for half of the seeds from a million on. It is not drawn, so
/// that smaller seeds keep the meaning they had when they were written down.
fn slowest_write(seed: u64) -> Duration {
    let slow = seed >= SLOW_WRITES_FROM && seed % 2 == 1;
    Duration::from_millis(if slow { 300 } else { 0 })
}

const SLOW_WRITES_FROM: u64 = 1_000_000;

/// Small sets are drawn more often than large ones, because they find more per second.
fn random_cap(random: &mut Random) -> u16 {
    if random.chance(6) { 7 } else { 2 }
}

fn draw_delays(random: &mut Random, links: &mut Links, replicas: u16) {
    let wide = random.chance(2);
    for (from, to) in pairs(replicas) {
        for lane in LANES {
            let microseconds = if wide && random.chance(2) {
                100 + random.below(300_000)
            } else {
                100 + random.below(20_000)
            };
            links.set(from, to, lane, Duration::from_micros(microseconds));
        }
    }
}

/// Every ordered pair of different replicas.
fn pairs(replicas: u16) -> impl Iterator<Item = (ReplicaSlot, ReplicaSlot)> {
    let slots = move || (1..=replicas).map(ReplicaSlot);
    slots().flat_map(move |from| slots().map(move |to| (from, to)).filter(|(a, b)| a != b))
}
