//! Distances between replicas: a delay for each direction and each lane, and the order of messages.
//!
//! It decides when messages arrive, never their content.

use crate::random::Random;
use control::{Moment, ReplicaSlot};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A lane between two replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Messages of replication control.
    Control,
    /// Updates in the order of their primary, and acknowledgements of applied updates.
    Stream,
    /// Contents of files.
    Data,
    /// Forwarded operations and their outcome.
    Forward,
}

type Link = (ReplicaSlot, ReplicaSlot, Lane);

/// All links between the replicas.
#[derive(Clone, Debug)]
pub struct Links {
    delays: BTreeMap<Link, Duration>,
    last_arrival: BTreeMap<Link, Moment>,
    cut: BTreeSet<(ReplicaSlot, ReplicaSlot)>,
    /// Whether messages may overtake each other on a link, and delays vary by half.
    pub reordering: bool,
    /// Delays vary upwards by at most this many hundredths, without overtaking.
    pub jitter_percent: u32,
}

impl Links {
    /// Links with no delay set yet.
    #[must_use]
    pub fn new(reordering: bool) -> Links {
        Links {
            delays: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            cut: BTreeSet::new(),
            reordering,
            jitter_percent: 0,
        }
    }

    /// Sets the delay of one direction and lane.
    pub fn set(&mut self, from: ReplicaSlot, to: ReplicaSlot, lane: Lane, delay: Duration) {
        self.delays.insert((from, to, lane), delay);
    }

    /// Cuts one direction: nothing arrives any more.
    pub fn cut(&mut self, from: ReplicaSlot, to: ReplicaSlot) {
        self.cut.insert((from, to));
    }

    /// Heals one direction: messages arrive again.
    pub fn heal(&mut self, from: ReplicaSlot, to: ReplicaSlot) {
        self.cut.remove(&(from, to));
    }

    /// Whether this direction is cut.
    pub(crate) fn is_cut(&self, from: ReplicaSlot, to: ReplicaSlot) -> bool {
        self.cut.contains(&(from, to))
    }

    /// The longest time that a message can travel.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let longest = self.delays.values().max().copied().unwrap_or_default();
        if self.reordering {
            longest * 3 / 2
        } else {
            longest * (100 + self.jitter_percent) / 100
        }
    }

    /// When a message sent now arrives.
    pub fn arrival(
        &mut self,
        random: &mut Random,
        now: Moment,
        from: ReplicaSlot,
        to: ReplicaSlot,
        lane: Lane,
    ) -> Moment {
        let link = (from, to, lane);
        let delay = self.delays.get(&link).copied().unwrap_or_default();
        if self.reordering {
            let half = u64::try_from(delay.as_micros() / 2).unwrap_or(u64::MAX);
            return Moment(now.after(delay).0 + random.below(half + 1));
        }
        let late = self.jitter(random, delay);
        let last = self.last_arrival.entry(link).or_default();
        *last = now.after(delay + late).max(*last);
        *last
    }

    /// How much longer than its delay a message travels. Without jitter nothing is drawn.
    fn jitter(&self, random: &mut Random, delay: Duration) -> Duration {
        if self.jitter_percent == 0 {
            return Duration::ZERO;
        }
        let most = delay * self.jitter_percent / 100;
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX - 1);
        Duration::from_micros(random.below(most + 1))
    }
}
