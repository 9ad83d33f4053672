//! Two sites that share a directory.
//!
//! What must never enter: counting, and the places of replicas.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control::ReplicaSlot;
use sim::{Random, World};
use vfs::ObjectId;

use super::set::directory;
use super::update::{make, run_until, took};

/// A client begins its next update this long after the last one, or when that is answered.
pub(super) const EVERY: Duration = Duration::from_millis(100);

/// One of this many updates is in the common directory.
pub(super) const COMMON_ONE_IN: u64 = 5;

/// The interval at which a client checks for an answer.
const STEP: Duration = Duration::from_millis(1);

/// The maximum mean wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// The amount of work of the two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Updates of each.
    pub(super) updates: u64,
    /// Decides which of them are in the common directory.
    pub(super) seed: u64,
}

/// Both sites.
#[derive(Debug)]
pub(super) struct Sites {
    load: Load,
    sites: [Site; 2],
}

/// A client, which makes one file after another.
#[derive(Debug)]
struct Site {
    home: ReplicaSlot,
    own: ObjectId,
    common: ObjectId,
    random: Random,
    /// The numbers of all updates so far, and whether they are in the common directory.
    begun: Vec<(usize, bool)>,
    next: Duration,
}

impl Sites {
    /// Their replicas.
    pub(super) const SLOTS: [ReplicaSlot; 2] = [ReplicaSlot(1), ReplicaSlot(2)];

    /// The two before they do anything.
    ///
    /// # Errors
    /// Never for these directories.
    pub(super) fn begin(load: Load) -> Result<Self> {
        let site = |number: u16| -> Result<Site> {
            Ok(Site {
                home: ReplicaSlot(number),
                own: directory(number.into())?,
                common: directory(0)?,
                random: Random::new(load.seed << 8 | u64::from(number)),
                begun: Vec::new(),
                next: Duration::ZERO,
            })
        };
        let sites = [site(1)?, site(2)?];
        Ok(Self { load, sites })
    }

    /// Lets both do everything.
    ///
    /// # Errors
    /// Fails when an invariant is broken, or a client waits too long.
    pub(super) fn work(&mut self, world: &mut World) -> Result<()> {
        let mut now = Duration::ZERO;
        let limit = PATIENCE * u32::try_from(self.load.updates)?;
        while !self.are_done(world) {
            ensure!(now < limit, "two sites have waited for {now:?}");
            for site in &mut self.sites {
                site.go_on(world, now, self.load.updates);
            }
            now += STEP;
            run_until(world, now)?;
        }
        Ok(())
    }

    fn are_done(&self, world: &World) -> bool {
        let done =
            |site: &Site| site.begun.len() as u64 == self.load.updates && site.is_answered(world);
        self.sites.iter().all(done)
    }

    /// The mean and the longest times of updates.
    ///
    /// # Errors
    /// Fails when one was refused.
    pub(super) fn times(&self, world: &World) -> Result<Vec<(String, f64)>> {
        let mut sums = [(Duration::ZERO, 0_u32); 2];
        let mut longest = Duration::ZERO;
        for (number, is_common) in self.sites.iter().flat_map(|site| &site.begun) {
            let operation = &world.operations[*number];
            let ended = operation.outcome.context("an update was not answered")?;
            let (sum, count) = &mut sums[usize::from(*is_common)];
            let time = took(operation.begun, ended)?;
            longest = longest.max(time);
            *sum += time;
            *count += 1;
        }
        let names = ["own_s", "common_s"];
        let sums = names.iter().zip(sums).filter(|(_, (_, count))| *count > 0);
        let mean = |(sum, count): (Duration, u32)| sum.as_secs_f64() / f64::from(count);
        let mut times: Vec<(String, f64)> = sums
            .map(|(name, sum)| ((*name).to_owned(), mean(sum)))
            .collect();
        times.push(("longest_s".to_owned(), longest.as_secs_f64()));
        Ok(times)
    }
}

impl Site {
    fn is_answered(&self, world: &World) -> bool {
        let last = self.begun.last();
        last.is_none_or(|(number, _)| world.operations[*number].outcome.is_some())
    }

    /// Begins the next update when it is time.
    fn go_on(&mut self, world: &mut World, now: Duration, updates: u64) {
        let made = self.begun.len() as u64;
        if now < self.next || made == updates || !self.is_answered(world) {
            return;
        }
        let is_common = self.random.chance(COMMON_ONE_IN);
        let parent = if is_common { self.common } else { self.own };
        let name = made * 2 + u64::from(self.home.0);
        let number = world.submit(Duration::ZERO, self.home, make(parent, name, false));
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        self.begun.push((number, is_common));
        self.next = now + EVERY;
    }
}
