//! A pool under random failures keeps its invariants, and each of its rules is needed. `POOL_SEED` runs one seed again with a trace,
//! `POOL_SEEDS` sets the number of runs.

use crate::harness::{number, random_runs, shown_without};
use pool::Rules;
use sim::Violation;
use sim::pool::{Node, Plan, World};
use std::time::Duration;

fn run(seed: u64, traced: bool, switch: fn(&mut Rules)) -> Result<(), Violation> {
    let mut plan = Plan::draw(seed);
    switch(&mut plan.rules);
    let mut world = World::new(&plan);
    world.traced = traced;
    world.run()
}

#[test]
fn random_runs_keep_every_invariant() {
    random_runs("POOL", 200, |seed, traced| run(seed, traced, |_| {}));
}

/// A rule, what switches it off, and the invariants that may break without it. The other rules are in `pool_scripted.rs`.
type Needed = (&'static str, fn(&mut Rules), &'static [&'static str]);

const NEEDED: &[Needed] = &[
    (
        "lease_checked",
        |rules| rules.lease_checked = false,
        &["P2", "P9", "P3", "P1", "P7"],
    ),
    (
        "gap_drops_requests",
        |rules| rules.gap_drops_requests = false,
        &["P9", "P3", "P7", "P1"],
    ),
    (
        "lease_waited_for",
        |rules| rules.lease_waited_for = false,
        &["P2", "P9", "P1", "P3", "P7"],
    ),
    (
        "generation_checked",
        |rules| rules.generation_checked = false,
        &["P9", "P1", "P3", "P7"],
    ),
    (
        "raise_waits",
        |rules| rules.raise_waits = false,
        &["P1", "P3", "P7", "P9"],
    ),
    (
        "tombstones",
        |rules| rules.tombstones = false,
        &["P2", "P3"],
    ),
    (
        "identity_checked",
        |rules| rules.identity_checked = false,
        &["P9"],
    ),
    (
        "unsettled_first",
        |rules| rules.unsettled_first = false,
        &["P1", "P3", "P7"],
    ),
    (
        "size_asked",
        |rules| rules.size_asked = false,
        &["P1", "P7"],
    ),
    (
        "settled_is_stable",
        |rules| rules.settled_is_stable = false,
        &["P1", "P7"],
    ),
    (
        "losers_fenced",
        |rules| rules.losers_fenced = false,
        &["P9", "P1", "P7"],
    ),
    (
        "cut_fences",
        |rules| rules.cut_fences = false,
        &["P1", "P2", "P3", "P7", "P9"],
    ),
    (
        "moves_end_writing",
        |rules| rules.moves_end_writing = false,
        &["P1", "P3", "P7"],
    ),
    (
        "old_contents_fenced",
        |rules| rules.old_contents_fenced = false,
        &["P3", "P7", "P9"],
    ),
    (
        "new_contents_cut",
        |rules| rules.new_contents_cut = false,
        &["P1"],
    ),
];

/// Faster moves happen more often; with slower key changes there are fewer fences for keys.
fn run_quickly(seed: u64, switch: fn(&mut Rules)) -> Result<(), Violation> {
    let mut plan = Plan::draw(seed);
    plan.copies_slowly = false;
    plan.key_life = Duration::from_hours(24);
    switch(&mut plan.rules);
    World::new(&plan).run()
}

#[test]
fn each_rule_is_needed() {
    let seeds = number("POOL_SEEDS").unwrap_or(4000);
    let threads: Vec<_> = NEEDED
        .iter()
        .map(|(name, switch, invariants)| {
            std::thread::spawn(move || {
                let without = |seed| run_quickly(seed, *switch);
                let with = |seed| run_quickly(seed, |_| {});
                let broken = shown_without(name, 0..seeds, without, with);
                assert!(invariants.contains(&broken.invariant), "{name}: {broken}");
            })
        })
        .collect();
    let failed = threads.into_iter().filter_map(|thread| thread.join().err());
    assert_eq!(failed.count(), 0, "the panics above say which rules");
}

/// A cut while a file is copied has to cut its copy, too.
#[test]
fn a_move_copies_what_was_changed_meanwhile() {
    let run = |seed, copies_changes| {
        let mut plan = Plan::draw(seed);
        plan.move_all();
        plan.copies_changes = copies_changes;
        World::new(&plan).run()
    };
    let (without, with) = (|seed| run(seed, false), |seed| run(seed, true));
    let broken = shown_without("the second copy", 0..4000, without, with);
    assert!(
        ["P1", "P3", "P7", "P9"].contains(&broken.invariant),
        "{broken}"
    );
}

/// A file is cut below the copied part, and grows again after the home has checked for changes.
#[test]
fn a_move_remembers_changes_beyond_the_end_of_the_file() {
    let run = |seed, keeps| {
        let mut plan = Plan::draw(seed);
        plan.move_all();
        plan.copies_slowly = true;
        plan.keeps_changes_beyond = keeps;
        World::new(&plan).run()
    };
    let (without, with) = (|seed| run(seed, false), |seed| run(seed, true));
    let broken = shown_without("changes beyond the end", 0..4000, without, with);
    assert!(["P3", "P7", "P9"].contains(&broken.invariant), "{broken}");
}

/// A server crashes after each event of a run, in one run for each event.
#[test]
fn a_crash_at_any_step_breaks_nothing() {
    for seed in 0..2 {
        for node in [Node::Home, Node::Server(0)] {
            let mut at = 1;
            loop {
                let mut plan = Plan::draw(seed);
                plan.faults.clear();
                plan.move_all();
                plan.crash_at = Some((at, node));
                let mut world = World::new(&plan);
                if let Err(violation) = world.run() {
                    panic!("{node:?} crashes behind event {at}: {violation}");
                }
                at += 1 + at / 40;
                if at >= world.happened {
                    break;
                }
            }
        }
    }
}
