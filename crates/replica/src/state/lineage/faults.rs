//! The proof that a data directory was restored from an older copy, and its description.

use serde::{Deserialize, Serialize};

use super::branch::Met;
use super::mac::Attested;

/// A member that knows something that a directory lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// The member that knows it.
    pub(crate) by: u16,
    pub(crate) what: Contradiction,
}

/// What a member has of another one that the other one's directory lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Contradiction {
    /// A start, or a mark of one.
    Met(Met),
    /// Updates of its own, up to this position.
    Updates(Attested),
}

impl Fault {
    /// What is known about this server's own directory, for display.
    pub(crate) fn of_own(&self) -> String {
        let by = self.by;
        let proof = match self.what {
            Contradiction::Met(met) => format!(
                "replica {by} has met this server in a state that its data directory does not have (start {}, mark {})",
                met.incarnation, met.mark
            ),
            Contradiction::Updates(through) => format!(
                "replica {by} has applied updates of this server, up to position {}, that its data directory does not have",
                through.number
            ),
        };
        format!(
            "this data directory was put back from an older copy, or has lost its end: {proof}. It takes no part and answers nobody, for it has forgotten what it promised; replace the copy as `meridian set rejoin --help` says"
        )
    }

    /// What is known about another member's directory, for display.
    pub(crate) fn of_other(&self, slot: u16) -> String {
        format!(
            "the data directory of replica {slot} was put back from an older copy, or has lost its end: replica {} knows more of it than it has itself. It is refused; replace its copy, there, as `meridian set rejoin --help` says",
            self.by
        )
    }
}
