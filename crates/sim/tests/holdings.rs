//! Locks and layouts of clients of joined metadata servers, under random failures. `HOLDINGS_SEED` runs one seed again with a trace,
//! `HOLDINGS_SEEDS` sets the number of runs.

use crate::harness::{random_runs, shown_without};
use sim::Violation;
use sim::holdings::{Counts, Plan, Rules, World};

fn run(seed: u64, traced: bool, switch: fn(&mut Rules)) -> Result<Counts, Violation> {
    let mut plan = Plan::draw(seed);
    switch(&mut plan.rules);
    let mut world = World::new(&plan);
    world.traced = traced;
    world.run()
}

#[test]
fn nobody_writes_by_a_lock_that_somebody_else_was_given_since() {
    let done = random_runs("HOLDINGS", 150, |seed, traced| run(seed, traced, |_| {}));
    let sum = |count: fn(&Counts) -> u64| done.iter().map(count).sum::<u64>();
    let runs = done.len() as u64;
    assert!(sum(|counts| counts.locked) >= 10 * runs);
    assert!(sum(|counts| counts.written[0]) >= 10 * runs);
    assert!(sum(|counts| counts.written[1]) >= runs);
    assert!(10 * sum(|counts| counts.reclaimed) >= runs);
    assert!(sum(|counts| counts.given_up) >= runs);
}

/// A rule, and what switches it off.
type Needed = (&'static str, fn(&mut Rules));

const NEEDED: &[Needed] = &[
    ("looked_at_again", |rules| rules.looked_at_again = false),
    ("under_way_first", |rules| rules.under_way_first = false),
    ("given_up_noted", |rules| rules.given_up_noted = false),
    ("all_told_first", |rules| rules.all_told_first = false),
    ("told_to_this_run", |rules| rules.told_to_this_run = false),
    ("layouts_outlasted", |rules| rules.layouts_outlasted = false),
    ("reclaims_first", |rules| rules.reclaims_first = false),
    ("reclaims_proved", |rules| rules.reclaims_proved = false),
    ("fenced_first", |rules| rules.fenced_first = false),
];

#[test]
fn each_rule_is_needed() {
    for (name, switch) in NEEDED {
        let without = |seed| run(seed, false, *switch);
        let with = |seed| run(seed, false, |_| {});
        shown_without(name, 0..1500, without, with);
    }
}
