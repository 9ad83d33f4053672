//! The settings of one simulated run, drawn from its seed.

use crate::network::{Lane, Links};
use crate::random::Random;
use crate::world::{Fault, Model};
use control::{Contention, LeaseSettings, ReplicaSlot, Settings};
use std::collections::BTreeSet;
use std::time::Duration;

/// The settings of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything else.
    pub seed: u64,
    /// The number of replicas.
    pub replicas: u16,
    /// The number of them that exist; smaller than `replicas` only in a reduced run.
    pub present: u16,
    /// The number of them that are configured from the start; the others are admitted while clients work.
    pub founders: u16,
    /// Replicas that vote, and have names and links but no contents. They have no clients.
    pub witnesses: BTreeSet<ReplicaSlot>,
    /// The operations, and then the lost connections, that take place: a bit for each; all beyond the last bit do.
    pub mask: u64,
    /// The number of operations that clients begin.
    pub operations: u32,
    /// The time within which they begin.
    pub span: Duration,
    /// The longest execution of a write; its controls are held meanwhile.
    pub slowest_write: Duration,
    /// The number of lost and renewed connections.
    pub reconnects: u32,
    /// The links between the replicas.
    pub links: Links,
    /// The cores' settings, the same at every replica.
    pub settings: Settings,
    /// Whether disks, leases and views count.
    pub failures: bool,
    /// Whether durability is `majority`; otherwise it is `relaxed`.
    pub majority: bool,
    /// Rules outside the cores.
    pub model: Model,
    /// Leases, the same at every replica.
    pub lease: LeaseSettings,
    /// How much faster than true time each clock runs, in millionths.
    pub drifts: Vec<i64>,
    /// Whether the last replica starts without anything and joins while clients work. In half of
    /// these runs it is not even configured before.
    pub joins: bool,
    /// The faults and their times.
    pub faults: Vec<(Duration, Fault)>,
}

/// The maximum size of a set.
pub(crate) const MAXIMUM: u16 = 9;

const LANES: [Lane; 4] = [Lane::Control, Lane::Stream, Lane::Data, Lane::Forward];

impl Plan {
    /// Whether the event with this number takes place.
    pub(crate) fn includes(&self, event: u32) -> bool {
        event >= u64::BITS || self.mask >> event & 1 == 1
    }

    /// The longest time of an operation per operation served meanwhile (I7): the grace after a revoke, and a
    /// slow write, for each of the four objects of a rename, and five round trips on the slowest link. With lost
    /// connections there is no limit.
    pub(crate) fn turn_limit(&self) -> Option<Duration> {
        let limit =
            4 * (self.settings.revoke_grace + self.slowest_write) + 10 * self.links.longest();
        (self.operations > 0 && self.reconnects == 0 && !self.failures).then_some(limit)
    }

    /// Draws the settings: 2 to 9 replicas, delays of 0.1 to 300 ms that differ by direction and
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
            slowest_write: slowest_write(seed),
            operations: 40,
            span: Duration::from_millis(200 + random.below(6000)),
            reconnects,
            ..Plan::quiet(replicas, links, settings)
        }
    }

    /// Draws the settings of a run in which replicas fail.
    #[must_use]
    pub fn draw_failing(seed: u64) -> Plan {
        let mut plan = Plan::draw(seed);
        let mut random = Random::new(seed ^ 0xfa11);
        plan.replicas = if random.chance(4) { 5 } else { 3 };
        plan.present = plan.replicas;
        plan.founders = plan.replicas;
        plan.reconnects = 0;
        plan.failures = true;
        plan.span = Duration::from_secs(20);
        draw_delays(&mut random, &mut plan.links, plan.replicas);
        let drift = i64::from(plan.lease.drift_ppm);
        for _ in 0..plan.replicas {
            let drawn = random.below(2 * plan.lease.drift_ppm as u64 + 1);
            plan.drifts.push(i64::try_from(drawn).unwrap_or(0) - drift);
        }
        plan.draw_faults(&mut random);
        plan.draw_pauses();
        plan.draw_retirements();
        plan.draw_clock_faults();
        plan.joins = random.chance(4);
        if plan.joins && seed % 2 == 1 {
            plan.founders -= 1;
        }
        plan
    }

    /// The same with durability `majority`: the remaining replicas take over by themselves, and no administrator gives
    /// anything up.
    #[must_use]
    pub fn held_by_majority(mut self) -> Plan {
        self.majority = true;
        self.faults
            .retain(|(_, fault)| !matches!(fault, Fault::GiveUp(_)));
        self
    }

    fn draw_faults(&mut self, random: &mut Random) {
        for _ in 0..4 + random.below(6) {
            let at = Duration::from_micros(random.below(20_000_000));
            let long = Duration::from_micros(random.below(8_000_000));
            let one = self.draw_slot(random);
            let other = self.draw_slot(random);
            let (fault, end) = match random.below(6) {
                0 | 1 => (Fault::Crash(one), Fault::Start(one)),
                2 => (Fault::Cut(one, other), Fault::Heal(one, other)),
                3 => {
                    self.faults.push((at, Fault::Cut(other, one)));
                    (Fault::Cut(one, other), Fault::Heal(one, other))
                }
                4 => (Fault::Full(one), Fault::Mended(one)),
                _ => {
                    self.faults.push((at, Fault::Crash(one)));
                    let patience = Duration::from_secs(4);
                    self.faults.push((at + patience, Fault::GiveUp(one)));
                    (Fault::Cut(one, other), Fault::Start(one))
                }
            };
            self.faults.push((at, fault));
            if !random.chance(3) {
                self.faults.push((at + long, end));
            }
        }
        self.faults.retain(|(_, fault)| !matches!(fault, Fault::Cut(one, other) | Fault::Heal(one, other) if one == other));
        self.faults.truncate(23);
    }

    /// Machines that stand still for a while, in half of the runs. They are drawn separately, so that recorded seeds keep their
    /// meaning.
    fn draw_pauses(&mut self) {
        let mut random = Random::new(self.seed ^ 0x57_111);
        if random.chance(2) {
            let at = Duration::from_micros(random.below(12_000_000));
            let long = Duration::from_micros(500_000 + random.below(7_000_000));
            let slot = self.draw_slot(&mut random);
            self.faults.push((at, Fault::Pause(slot, long)));
        }
    }

    /// In half of the runs machines are repeatedly suspended or stand still, and their clocks are set forward and back, by small amounts that
    /// may pass unnoticed and by large ones. The clock of a machine that stands still unseen is not set, because that could hide the pause.
    /// Drawn separately, as pauses are.
    fn draw_clock_faults(&mut self) {
        let mut random = Random::new(self.seed ^ 0xc10c);
        if !random.chance(2) {
            return;
        }
        let allowed = self.lease.jump_allowed().as_micros();
        let little = 2 * u64::try_from(allowed).unwrap_or(0);
        for _ in 0..1 + random.below(6) {
            // All machines continue before everything is mended.
            let at = Duration::from_micros(random.below(12_000_000));
            let slot = self.draw_slot(&mut random);
            let most = if random.chance(2) { little } else { 8_000_000 };
            let drawn = random.below(most);
            let (long, by_us) = (
                Duration::from_micros(drawn),
                i64::try_from(drawn).unwrap_or(0),
            );
            let mut before = self.faults.iter();
            let pauses =
                before.any(|(_, fault)| matches!(fault, Fault::Pause(of, _) if *of == slot));
            let mut before = self.faults.iter();
            let is_set =
                before.any(|(_, fault)| matches!(fault, Fault::SetClock(of, _) if *of == slot));
            let fault = match random.below(4) {
                0 => Fault::Suspend(slot, long),
                1 if !is_set => Fault::Pause(slot, long),
                2 if !pauses => Fault::SetClock(slot, by_us),
                3 if !pauses => Fault::SetClock(slot, -by_us),
                _ => continue,
            };
            self.faults.push((at, fault));
        }
    }

    /// In half of the runs, an orderly stop begins before half of the crashes; the crash may interrupt it. Drawn separately, as pauses are.
    fn draw_retirements(&mut self) {
        let mut random = Random::new(self.seed ^ 0x0de5);
        if !random.chance(2) {
            return;
        }
        let mut retirements = Vec::new();
        for (at, fault) in &self.faults {
            let before = Duration::from_micros(random.below(1_500_000));
            if let Fault::Crash(slot) = fault
                && random.chance(2)
            {
                retirements.push((at.saturating_sub(before), Fault::Retire(*slot)));
            }
        }
        self.faults.append(&mut retirements);
    }

    /// When all faults of a random run are mended.
    pub(crate) fn mended_after(&self) -> Duration {
        self.span + Duration::from_secs(2)
    }

    fn draw_slot(&self, random: &mut Random) -> ReplicaSlot {
        let drawn = random.below(u64::from(self.replicas));
        ReplicaSlot(1 + u16::try_from(drawn).unwrap_or(0))
    }

    /// Replicas at equal distances, without losses, reordering and operations: the start of
    /// a scripted scenario.
    #[must_use]
    pub fn still(replicas: u16, delay: Duration, settings: Settings) -> Plan {
        let mut links = Links::new(false);
        for (from, to) in pairs(replicas) {
            for lane in LANES {
                links.set(from, to, lane, delay);
            }
        }
        Plan::quiet(replicas, links, settings)
    }

    /// No events and no failures.
    fn quiet(replicas: u16, links: Links, settings: Settings) -> Plan {
        Plan {
            seed: 0,
            replicas,
            present: replicas,
            founders: replicas,
            witnesses: BTreeSet::new(),
            mask: u64::MAX,
            slowest_write: Duration::ZERO,
            operations: 0,
            span: Duration::ZERO,
            reconnects: 0,
            links,
            settings,
            failures: false,
            majority: false,
            model: Model::ALL,
            lease: lease(),
            drifts: Vec::new(),
            joins: false,
            faults: Vec::new(),
        }
    }
}

/// Shorter than the default, so that more happens in a run.
fn lease() -> LeaseSettings {
    LeaseSettings {
        length: Duration::from_secs(3),
        ..LeaseSettings::default()
    }
}

/// For half of the seeds from a million on: up to three times the grace after a revoke. It is not drawn, so
/// that smaller recorded seeds keep their meaning.
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
