//! What a failed run says: the invariant, what was seen, and the seed that repeats it.
//!
//! It reports; deciding what is a violation is the business of `invariants`.

use control::Moment;
use std::fmt;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: &'static str,
    /// What was seen.
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
