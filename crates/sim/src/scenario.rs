//! Names one random run, or a reduced run: only what it needs to fail is left.
//!
//! It is written `seed`, or `seed.replicas.mask` in decimal and hexadecimal, and can be run again by that name. A prefix
//! `f` means that replicas fail; a prefix `m` means durability `majority` as well.

use crate::plan::{MAXIMUM, Plan};
use crate::violation::Violation;
use crate::world::World;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Every run is quiet long before this.
const LIMIT: Duration = Duration::from_secs(60);

/// The same for a run with failing replicas, although many events come first.
const LIMIT_FAILING: Duration = Duration::from_secs(120);

/// A random run by its seed, reduced or whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Whether replicas fail.
    pub failing: bool,
    /// Whether, in addition, durability is `majority`.
    pub majority: bool,
    /// Decides everything else.
    pub seed: u64,
    /// Only the first `replicas` replicas exist; clients of others do nothing.
    pub replicas: u16,
    /// The operations and lost connections that take place, a bit for each in the order they are drawn.
    pub mask: u64,
}

impl Scenario {
    /// The whole run of a seed.
    #[must_use]
    pub fn whole(seed: u64) -> Scenario {
        Scenario {
            failing: false,
            majority: false,
            seed,
            replicas: MAXIMUM,
            mask: u64::MAX,
        }
    }

    /// The whole run of a seed in which replicas fail.
    #[must_use]
    pub fn failing(seed: u64) -> Scenario {
        Scenario {
            failing: true,
            ..Scenario::whole(seed)
        }
    }

    /// The same with durability `majority`.
    #[must_use]
    pub fn held_by_majority(seed: u64) -> Scenario {
        Scenario {
            majority: true,
            ..Scenario::failing(seed)
        }
    }

    /// The plan of the run.
    #[must_use]
    pub fn plan(self) -> Plan {
        let mut plan = match (self.failing, self.majority) {
            (false, _) => Plan::draw(self.seed),
            (true, false) => Plan::draw_failing(self.seed),
            (true, true) => Plan::draw_failing(self.seed).held_by_majority(),
        };
        plan.present = self.replicas.min(plan.replicas);
        plan.mask = self.mask;
        plan
    }

    /// Sets up the world.
    #[must_use]
    pub fn world(self) -> World {
        World::new(&self.plan())
    }

    /// Runs the scenario to its end.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn run(self) -> Result<(), Violation> {
        Scenario::run_world(&mut self.world())
    }

    /// Runs the world of a scenario to its end.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn run_world(world: &mut World) -> Result<(), Violation> {
        if world.failures {
            world.run_to_rest(LIMIT_FAILING)
        } else {
            world.run(LIMIT)
        }
    }

    /// Removes replicas, operations and lost connections, as long as the same invariant stays broken.
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
        self.replicas = self.plan().present;
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
        f.write_str(match (self.failing, self.majority) {
            (false, _) => "",
            (true, false) => "f",
            (true, true) => "m",
        })?;
        if (self.replicas, self.mask) == (MAXIMUM, u64::MAX) {
            return write!(f, "{}", self.seed);
        }
        write!(f, "{}.{}.{:x}", self.seed, self.replicas, self.mask)
    }
}

impl FromStr for Scenario {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Scenario, Self::Err> {
        let majority = text.starts_with('m');
        let failing = majority || text.starts_with('f');
        let mut parts = text.trim_start_matches(['f', 'm']).split('.');
        let mut scenario = Scenario::whole(parts.next().unwrap_or_default().parse()?);
        (scenario.failing, scenario.majority) = (failing, majority);
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
        for failing in [Scenario::failing(7), Scenario::held_by_majority(7)] {
            assert_eq!(failing.to_string().parse(), Ok(failing));
        }
    }
}
