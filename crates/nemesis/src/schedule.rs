//! The faults of a run and their times, drawn from its seed.
//!
//! What must never enter: processes and links; `world` carries the faults out.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// No fault begins before this, so that clients are at work.
pub const WARM_UP: Duration = Duration::from_secs(6);

/// The shortest and the longest fault.
const LENGTH: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(18)];

/// The shortest and the longest time between the beginnings of two faults.
const GAP: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(12)];

/// The bandwidths of slow links, in bits a second.
const SLOW_BITS: [u64; 3] = [500_000, 2_000_000, 20_000_000];

/// The site whose server began the set.
pub const FIRST: usize = 0;

/// The site whose server has its own pool, if one has.
pub const POOLED: usize = 1;

/// The number of that pool's first data server; sites have smaller numbers.
pub const FIRST_DATA_SERVER: usize = 5;

/// A kind of faults.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The server is killed as by `kill -9`, and started again at the end
    Kill,
    /// The server is told to end, as for an upgrade, and started again at the end
    Restart,
    /// The server is stopped by SIGSTOP, and continued
    Stop,
    /// The site is cut off from all others, or from one, in both directions
    Cut,
    /// The site is cut off in one direction: it is heard and hears nothing, or the reverse
    Oneway,
    /// The server's disk is full
    Fill,
    /// The site's links to all others, or to one, are slow in both directions
    Slow,
    /// The server is killed and started with a clock that is wrong and runs too fast or too slow
    Skew,
    /// The time of day jumps while the server runs, and back at the end
    Jump,
    /// The server is told to end and is removed from the set, which goes on without it; at the end a new one joins in its place
    Remove,
    /// The server is removed from the set while it runs and has clients, with what it alone has; at the end it has to say so, and a new one
    /// joins in its place
    Expel,
    /// The server is lost for good with its disk; at the end it is removed from the set and a new one joins in its place
    Lose,
    /// The server's data directory is copied while it runs; at the end it is put back to that copy, has to refuse itself, and joins anew
    Rollback,
}

impl Kind {
    /// The kinds after which a server comes back.
    pub const PASSING: [Kind; 9] = [
        Kind::Kill,
        Kind::Restart,
        Kind::Stop,
        Kind::Cut,
        Kind::Oneway,
        Kind::Fill,
        Kind::Slow,
        Kind::Skew,
        Kind::Jump,
    ];

    /// The kinds after which it does not come back.
    pub const FINAL: [Kind; 4] = [Kind::Remove, Kind::Expel, Kind::Lose, Kind::Rollback];

    /// The part of a site that can suffer only one fault at a time.
    fn part(self) -> Part {
        match self {
            Kind::Kill | Kind::Restart | Kind::Stop | Kind::Skew | Kind::Jump => Part::Process,
            Kind::Cut | Kind::Oneway | Kind::Slow => Part::Link,
            Kind::Fill => Part::Disk,
            Kind::Remove | Kind::Expel | Kind::Lose | Kind::Rollback => Part::Everything,
        }
    }

    /// Whether data that only this server had are gone for good.
    pub fn is_final(self) -> bool {
        Kind::FINAL.contains(&self)
    }

    /// Whether a site can suffer both at the same time.
    fn goes_with(self, other: Kind) -> bool {
        let (one, other) = (self.part(), other.part());
        one != other && one != Part::Everything && other != Part::Everything
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Process,
    Link,
    Disk,
    Everything,
}

/// The details of a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blow {
    /// See [`Kind::Kill`].
    Kill,
    /// See [`Kind::Restart`].
    Restart,
    /// See [`Kind::Stop`].
    Stop,
    /// No packet from or to these sites.
    Cut(Vec<usize>),
    /// No packet to these sites.
    Mute(Vec<usize>),
    /// No packet from these sites.
    Deafen(Vec<usize>),
    /// The links from and to these sites carry this many bits a second.
    Slow(Vec<usize>, u64),
    /// This many bytes are left on the disk.
    Fill(u64),
    /// The time of day is wrong by this many seconds.
    WrongClock(i64),
    /// The time of day jumps by this many seconds.
    Jump(i64),
    /// All clocks are too fast by this many millionths: at most the drift that servers allow for.
    UnevenClock(i64),
    /// See [`Kind::Remove`].
    Remove,
    /// See [`Kind::Expel`].
    Expel,
    /// See [`Kind::Lose`].
    Lose,
    /// See [`Kind::Rollback`].
    Rollback,
}

/// A fault of one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The number of the site.
    pub victim: usize,
    /// Its kind.
    pub kind: Kind,
    /// The details.
    pub blow: Blow,
    /// After the run's beginning.
    pub begin: Duration,
    /// After the run's beginning.
    pub end: Duration,
}

impl Fault {
    /// The same fault, later by this time.
    #[must_use]
    pub(crate) fn later(self, by: Duration) -> Self {
        let (begin, end) = (self.begin + by, self.end + by);
        Self { begin, end, ..self }
    }
}

/// The settings from which faults are drawn.
#[derive(Debug, Clone, Serialize)]
pub struct Profile {
    /// The seed.
    pub seed: u64,
    /// The number of sites.
    pub sites: usize,
    /// The number of data servers that the site [`POOLED`] has besides its server.
    pub data_servers: usize,
    /// The time when every fault has ended.
    pub length: Duration,
    /// The kinds; empty for a run without faults.
    pub kinds: Vec<Kind>,
    /// Whether a majority may suffer at once.
    pub majority: bool,
    /// Instead of drawn faults, every server is restarted once, one after another.
    pub rolling: bool,
}

/// The numbers of all servers: those of sites, then the data servers of [`POOLED`].
pub fn numbers(sites: usize, data_servers: usize) -> impl Iterator<Item = usize> {
    (0..sites).chain((FIRST_DATA_SERVER..).take(data_servers))
}

/// Whether the number belongs to a data server of [`POOLED`].
pub fn is_data_server(number: usize) -> bool {
    number >= FIRST_DATA_SERVER
}

impl Profile {
    /// The maximum number of sites that may suffer at once.
    pub(crate) fn victims_max(&self) -> usize {
        match self.majority {
            true => self.sites,
            false => self.sites.saturating_sub(1) / 2,
        }
    }

    /// The maximum number of data servers that may suffer at once, whatever sites do.
    fn data_servers_max(&self) -> usize {
        match self.majority {
            true => self.data_servers,
            false => self.data_servers.min(1),
        }
    }

    /// The servers that may suffer a fault besides these victims.
    fn candidates(&self, victims: &BTreeSet<usize>) -> Vec<usize> {
        let is_full = |number: usize| {
            let is_alike = |victim: &&usize| is_data_server(**victim) == is_data_server(number);
            let most = match is_data_server(number) {
                true => self.data_servers_max(),
                false => self.victims_max(),
            };
            victims.iter().filter(is_alike).count() >= most
        };
        let numbers = numbers(self.sites, self.data_servers);
        numbers
            .filter(|number| victims.contains(number) || !is_full(*number))
            .collect()
    }

    /// The other ends of a server's links that can fail: for a site the other sites, for a data server its site.
    fn others(&self, number: usize) -> Vec<usize> {
        match is_data_server(number) {
            true => vec![POOLED],
            false => (0..self.sites).filter(|&site| site != number).collect(),
        }
    }
}

/// Draws the faults of a run, in the order of their beginnings.
pub fn draw(profile: &Profile) -> Vec<Fault> {
    let mut random = Random::new(profile.seed, 1);
    let mut faults: Vec<Fault> = Vec::new();
    let mut begin = WARM_UP;
    while begin + LENGTH[0] <= profile.length {
        let end = (begin + time(&mut random, LENGTH)).min(profile.length);
        faults.extend(one(profile, &mut random, &faults, begin, end));
        begin += time(&mut random, GAP);
    }
    faults
}

/// A fault between these times that is compatible with the existing ones.
fn one(
    profile: &Profile,
    random: &mut Random,
    faults: &[Fault],
    begin: Duration,
    end: Duration,
) -> Option<Fault> {
    let kind = *random.one_of(&profile.kinds)?;
    let meanwhile: Vec<&Fault> = faults.iter().filter(|fault| fault.end > begin).collect();
    let victims: BTreeSet<usize> = meanwhile.iter().map(|fault| fault.victim).collect();
    let is_free = |site: &usize| {
        let mut at_site = meanwhile.iter().filter(|fault| fault.victim == *site);
        // Only the first site can invite others.
        let may_be_lost = !kind.is_final() || *site != FIRST;
        may_be_lost && at_site.all(|fault| fault.kind.goes_with(kind))
    };
    let candidates = profile.candidates(&victims).into_iter();
    let candidates: Vec<usize> = candidates.filter(is_free).collect();
    let victim = *random.one_of(&candidates)?;
    Some(Fault {
        victim,
        kind,
        blow: blow(profile, random, kind, victim),
        begin,
        end,
    })
}

fn blow(profile: &Profile, random: &mut Random, kind: Kind, victim: usize) -> Blow {
    let others = profile.others(victim);
    match kind {
        Kind::Kill => Blow::Kill,
        Kind::Restart => Blow::Restart,
        Kind::Stop => Blow::Stop,
        Kind::Cut => Blow::Cut(some(random, others)),
        Kind::Oneway if random.below(2) == 0 => Blow::Mute(some(random, others)),
        Kind::Oneway => Blow::Deafen(some(random, others)),
        Kind::Slow => {
            let sites = some(random, others);
            Blow::Slow(sites, *random.one_of(&SLOW_BITS).unwrap_or(&SLOW_BITS[0]))
        }
        Kind::Jump => Blow::Jump(random.between(0, 600) as i64 - 300),
        Kind::Fill => Blow::Fill(random.between(0, 4 << 20)),
        Kind::Skew if random.below(2) == 0 => Blow::WrongClock(random.between(0, 600) as i64 - 300),
        Kind::Skew => Blow::UnevenClock(random.between(0, 1000) as i64 - 500),
        Kind::Remove => Blow::Remove,
        Kind::Expel => Blow::Expel,
        Kind::Lose => Blow::Lose,
        Kind::Rollback => Blow::Rollback,
    }
}

/// All of them in two of three cases, otherwise one.
fn some(random: &mut Random, sites: Vec<usize>) -> Vec<usize> {
    match random.below(3) {
        0 => random.one_of(&sites).copied().into_iter().collect(),
        _ => sites,
    }
}

fn time(random: &mut Random, [low, high]: [Duration; 2]) -> Duration {
    let ms = random.between(low.as_millis() as u64, high.as_millis() as u64);
    Duration::from_millis(ms)
}

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |sites: &[usize]| {
            let names: Vec<&str> = sites.iter().map(|&site| name(site)).collect();
            names.join(" and ")
        };
        match self {
            Blow::Kill => write!(f, "killed"),
            Blow::Restart => write!(f, "restarted"),
            Blow::Stop => write!(f, "stopped"),
            Blow::Cut(sites) => write!(f, "cut off from {}", names(sites)),
            Blow::Mute(sites) => write!(f, "not heard by {}", names(sites)),
            Blow::Deafen(sites) => write!(f, "does not hear {}", names(sites)),
            Blow::Slow(sites, bits) => {
                write!(f, "{} kbit/s from and to {}", bits / 1000, names(sites))
            }
            Blow::Jump(seconds) => write!(f, "its time of day jumps by {seconds:+} s"),
            Blow::Fill(left) => write!(f, "disk full, {} KiB left", left >> 10),
            Blow::WrongClock(seconds) => write!(f, "clock {seconds:+} s wrong"),
            Blow::UnevenClock(millionths) => write!(f, "clock {millionths:+} millionths too fast"),
            Blow::Remove => write!(f, "told to end and removed from the set"),
            Blow::Expel => write!(f, "removed from the set while it runs"),
            Blow::Lose => write!(f, "lost for good with its disk"),
            Blow::Rollback => write!(f, "copied, and later put back to that"),
        }
    }
}

/// The name of a site, or of a data server of [`POOLED`].
pub fn name(number: usize) -> &'static str {
    const NAMES: [&str; 8] = [
        "paris", "oslo", "rome", "lima", "perth", "oslo-a", "oslo-b", "oslo-c",
    ];
    NAMES.get(number).copied().unwrap_or("elsewhere")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(seed: u64, sites: usize, majority: bool) -> Profile {
        Profile {
            seed,
            sites,
            data_servers: 0,
            length: Duration::from_secs(600),
            kinds: [&Kind::PASSING[..], &Kind::FINAL[..]].concat(),
            majority,
            rolling: false,
        }
    }

    /// The maximum number of sites that suffer at one time.
    fn most(faults: &[Fault]) -> usize {
        let at = |time: Duration| {
            let suffering = faults
                .iter()
                .filter(|fault| fault.begin <= time && time < fault.end);
            let victims: BTreeSet<usize> = suffering.map(|fault| fault.victim).collect();
            victims.len()
        };
        faults
            .iter()
            .map(|fault| at(fault.begin))
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn never_more_than_a_minority_suffers_at_once() {
        for seed in 0..200 {
            assert!(most(&draw(&profile(seed, 3, false))) <= 1, "{seed}");
            assert!(most(&draw(&profile(seed, 5, false))) <= 2, "{seed}");
        }
        assert!((0..50).any(|seed| most(&draw(&profile(seed, 5, false))) == 2));
        assert!((0..50).any(|seed| most(&draw(&profile(seed, 3, true))) >= 2));
    }

    fn with_pool(seed: u64, majority: bool) -> Profile {
        Profile {
            data_servers: 3,
            kinds: Kind::PASSING.to_vec(),
            ..profile(seed, 3, majority)
        }
    }

    #[test]
    fn data_servers_suffer_besides_sites_one_at_a_time() {
        let mut both = 0;
        for seed in 0..100 {
            let faults = draw(&with_pool(seed, false));
            let (there, sites): (Vec<Fault>, Vec<Fault>) = faults
                .into_iter()
                .partition(|fault| is_data_server(fault.victim));
            assert!(most(&there) <= 1 && most(&sites) <= 1, "{seed}");
            both += most(&[there, sites].concat()) / 2;
        }
        assert!(both > 0);
        assert!((0..50).any(|seed| {
            let mut faults = draw(&with_pool(seed, true));
            faults.retain(|fault| is_data_server(fault.victim));
            most(&faults) == 3
        }));
    }

    #[test]
    fn links_fail_between_sites_and_between_a_data_server_and_its_site() {
        let mut there = 0;
        for fault in (0..50).flat_map(|seed| draw(&with_pool(seed, false))) {
            let (Blow::Cut(others)
            | Blow::Mute(others)
            | Blow::Deafen(others)
            | Blow::Slow(others, _)) = &fault.blow
            else {
                continue;
            };
            match is_data_server(fault.victim) {
                true => {
                    there += 1;
                    assert_eq!(*others, [POOLED]);
                }
                false => assert!(others.iter().all(|other| *other < 3), "{fault:?}"),
            }
        }
        assert!(there > 0);
        let names: BTreeSet<&str> = numbers(5, 3).map(name).collect();
        assert_eq!(names.len(), 8);
    }

    #[test]
    fn a_site_suffers_one_fault_of_a_part_at_a_time() {
        for seed in 0..200 {
            let faults = draw(&profile(seed, 3, true));
            for (index, fault) in faults.iter().enumerate() {
                let clash = faults[..index].iter().find(|earlier| {
                    earlier.victim == fault.victim
                        && !earlier.kind.goes_with(fault.kind)
                        && earlier.end > fault.begin
                });
                assert_eq!(clash, None, "{seed}: {fault:?}");
            }
        }
    }

    #[test]
    fn a_seed_draws_the_same_faults_and_every_kind_comes_up() {
        assert_eq!(draw(&profile(3, 3, false)), draw(&profile(3, 3, false)));
        assert_ne!(draw(&profile(3, 3, false)), draw(&profile(4, 3, false)));
        let faults: Vec<Fault> = (0..20)
            .flat_map(|seed| draw(&profile(seed, 3, false)))
            .collect();
        let kinds: BTreeSet<Kind> = faults.iter().map(|fault| fault.kind).collect();
        assert_eq!(kinds.len(), Kind::PASSING.len() + Kind::FINAL.len());
        let mut lost = faults.iter().filter(|fault| fault.kind.is_final());
        assert!(lost.all(|fault| fault.victim != FIRST));
        assert!(
            faults
                .iter()
                .all(|fault| fault.begin >= WARM_UP && fault.end <= Duration::from_secs(600))
        );
        let none = Profile {
            kinds: Vec::new(),
            ..profile(1, 3, false)
        };
        assert_eq!(draw(&none), Vec::new());
    }
}
