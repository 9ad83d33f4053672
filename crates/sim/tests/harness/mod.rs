//! How tests draw seeds: the environment gives their number, or a single seed that is run with a trace. Also shows that a rule is
//! needed.
//!
//! What must never enter: the simulation itself.

use sim::Violation;

/// A number from the environment.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs seeds from 0 on, `NAME_SEEDS` or else `usual` of them, and returns their results. With `NAME_SEED`, runs only that seed with a
/// trace, and returns no results. `run` gets the seed, and whether to trace it.
///
/// # Panics
/// When a run breaks an invariant.
pub fn random_runs<T>(
    name: &str,
    usual: u64,
    run: impl Fn(u64, bool) -> Result<T, Violation>,
) -> Vec<T> {
    if let Some(seed) = number(&format!("{name}_SEED")) {
        run(seed, true).unwrap_or_else(|violation| panic!("{violation}"));
        return Vec::new();
    }
    let seeds = 0..number(&format!("{name}_SEEDS")).unwrap_or(usual);
    let run = |seed| {
        run(seed, false).unwrap_or_else(|violation| {
            panic!("{violation}; the same with {name}_SEED={seed}");
        })
    };
    seeds.map(run).collect()
}

/// The first of the seeds that breaks an invariant without a rule; with the rule in force it must break none.
///
/// # Panics
/// When no seed breaks an invariant, or a seed breaks one with the rule in force.
pub fn shown_without<T>(
    rule: &str,
    mut seeds: impl Iterator<Item = u64>,
    without: impl Fn(u64) -> Result<T, Violation>,
    with: impl Fn(u64) -> Result<T, Violation>,
) -> Violation {
    let broken = seeds.find_map(|seed| without(seed).err());
    let broken = broken.unwrap_or_else(|| panic!("{rule}: no run breaks anything without it"));
    if let Err(violation) = with(broken.at.0) {
        panic!("with {rule} in force: {violation}");
    }
    broken
}
