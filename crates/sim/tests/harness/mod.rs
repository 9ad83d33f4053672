//! How tests draw seeds: how many and which one the environment says, with a trace of a single one; and how a rule is shown to be
//! needed.
//!
//! What must never enter: what is simulated.

use sim::Violation;

/// A number that the environment says.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs seeds from 0 on, `NAME_SEEDS` or else `usual` of them, and returns what came of each; with `NAME_SEED`, that one alone and
/// traced, and nothing comes of it. `run` is told the seed, and whether to trace it.
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

/// The first of the seeds that breaks something without a rule; with the rule in force it must break nothing.
///
/// # Panics
/// When no seed breaks anything, or one does in spite of the rule.
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
