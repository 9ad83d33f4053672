//! A pool under random failures keeps its invariants, and each of its rules is needed. `POOL_SEED` runs one seed again with a trace,
//! `POOL_SEEDS` sets how many are run.

use pool::Rules;
use sim::Violation;
use sim::pool::{Node, Plan, World};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(seed: u64, switch: fn(&mut Rules)) -> Result<(), Violation> {
    let mut plan = Plan::draw(seed);
    switch(&mut plan.rules);
    World::new(&plan).run()
}

#[test]
fn random_runs_keep_every_invariant() {
    if let Some(seed) = number("POOL_SEED") {
        let mut world = World::new(&Plan::draw(seed));
        world.traced = true;
        world
            .run()
            .unwrap_or_else(|violation| panic!("{violation}"));
        return;
    }
    for seed in 0..number("POOL_SEEDS").unwrap_or(200) {
        if let Err(violation) = run(seed, |_| {}) {
            panic!("{violation}; the same with POOL_SEED={seed}");
        }
    }
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
        "standing_checked",
        |rules| rules.standing_checked = false,
        &["P9"],
    ),
    (
        "unsettled_first",
        |rules| rules.unsettled_first = false,
        &["P1", "P3", "P7"],
    ),
    ("size_asked", |rules| rules.size_asked = false, &["P1"]),
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
];

#[test]
fn each_rule_is_needed() {
    let seeds = number("POOL_SEEDS").unwrap_or(4000);
    let threads: Vec<_> = NEEDED
        .iter()
        .map(|(name, switch, invariants)| {
            std::thread::spawn(move || {
                let broken = (0..seeds).find_map(|seed| run(seed, *switch).err());
                let Some(broken) = broken else {
                    panic!("{name}: no run breaks anything without it");
                };
                assert!(invariants.contains(&broken.invariant), "{name}: {broken}");
                let (seed, _) = broken.at;
                if let Err(violation) = run(seed, |_| {}) {
                    panic!("with {name} in force: {violation}");
                }
            })
        })
        .collect();
    let failed = threads.into_iter().filter_map(|thread| thread.join().err());
    assert_eq!(failed.count(), 0, "the panics above say which rules");
}

/// A server crashes behind each event of a run, one after the other.
#[test]
fn a_crash_at_any_step_breaks_nothing() {
    for seed in 0..2 {
        for node in [Node::Home, Node::Server(0)] {
            let mut at = 1;
            loop {
                let mut plan = Plan::draw(seed);
                plan.faults.clear();
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
