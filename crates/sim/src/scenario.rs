//! Names one random run, or what is left of it after whatever it does not need to fail was taken away.
//!
//! It is written `seed`, or `seed.replicas.mask` in decimal and hexadecimal, and can be run again by that.

use crate::plan::{MAXIMUM, Plan};
use crate::violation::Violation;
use crate::world::World;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Every run is quiet long before this.
const LIMIT: Duration = Duration::from_secs(60);

/// A random run by its seed, reduced or whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Decides everything else.
    pub seed: u64,
    /// Only the first so many replicas exist; clients of others do nothing.
    pub replicas: u16,
    /// Which operations and lost connections take place, a bit for each in the order they are drawn.
    pub mask: u64,
}

impl Scenario {
    /// The whole run of a seed.
    #[must_use]
    pub fn whole(seed: u64) -> Scenario {
        Scenario {
            seed,
            replicas: MAXIMUM,
            mask: u64::MAX,
        }
    }

    /// Sets the stage.
    #[must_use]
    pub fn world(self) -> World {
        let mut plan = Plan::draw(self.seed);
        plan.present = self.replicas.min(plan.replicas);
        plan.mask = self.mask;
        World::new(&plan)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn run(self) -> Result<(), Violation> {
        self.world().run(LIMIT)
    }

    /// Takes away replicas, operations and lost connections, as long as the same invariant stays broken.
    #[must_use]
    pub fn shrink(self) -> Scenario {
        let Err(broken) = self.run() else {
            return self;
        };
        let fails = |scenario: Scenario| {
            let outcome = scenario.run();
            outcome.is_err_and(|other| other.invariant == broken.invariant)
        };
        let mut smallest = self;
        loop {
            let before = smallest;
            smallest = smallest.with_fewer_replicas(fails).with_fewer_events(fails);
            if smallest == before {
                return smallest;
            }
        }
    }

    fn with_fewer_replicas(mut self, fails: impl Fn(Scenario) -> bool) -> Scenario {
        self.replicas = self.replicas.min(Plan::draw(self.seed).replicas);
        for replicas in 2..self.replicas {
            let smaller = Scenario { replicas, ..self };
            if fails(smaller) {
                return smaller;
            }
        }
        self
    }

    /// Leaves out runs of events, long ones first.
    fn with_fewer_events(mut self, fails: impl Fn(Scenario) -> bool) -> Scenario {
        let mut width = 32;
        while width > 0 {
            for first in (0..64).step_by(width) {
                let run = (u64::MAX >> (64 - width)) << first;
                let mask = self.mask & !run;
                let smaller = Scenario { mask, ..self };
                if mask != self.mask && fails(smaller) {
                    self = smaller;
                }
            }
            width /= 2;
        }
        self
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Scenario::whole(self.seed) {
            return write!(f, "{}", self.seed);
        }
        write!(f, "{}.{}.{:x}", self.seed, self.replicas, self.mask)
    }
}

impl FromStr for Scenario {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Scenario, Self::Err> {
        let mut parts = text.split('.');
        let mut scenario = Scenario::whole(parts.next().unwrap_or_default().parse()?);
        if let Some(replicas) = parts.next() {
            scenario.replicas = replicas.parse()?;
        }
        if let Some(mask) = parts.next() {
            scenario.mask = u64::from_str_radix(mask, 16)?;
        }
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failure_does_not_need_is_left_out() {
        let needed = 1 << 5 | 1 << 40;
        let fails = |scenario: Scenario| scenario.mask & needed == needed;
        let reduced = Scenario::whole(7).with_fewer_events(fails);
        assert_eq!(reduced.mask, needed);
    }

    #[test]
    fn a_scenario_can_be_read_as_it_is_written() {
        let whole = Scenario::whole(7);
        assert_eq!(whole.to_string().parse(), Ok(whole));
        let reduced = Scenario {
            replicas: 3,
            mask: 0xf0,
            ..whole
        };
        assert_eq!(reduced.to_string(), "7.3.f0");
        assert_eq!(reduced.to_string().parse(), Ok(reduced));
    }
}
