//! The report of a failed run: the invariant, the observation, and the seed that repeats it.
//!
//! It only reports; `invariants` decides what is a violation.

use control::Moment;
use std::fmt;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// The observation.
    pub sight: String,
    /// The seed of the run and the moment in it.
    pub at: (u64, Moment),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation {
            invariant,
            sight,
            at: (seed, moment),
        } = self;
        write!(
            f,
            "seed {seed}, at {} us: {invariant} is broken: {sight}",
            moment.0
        )
    }
}
