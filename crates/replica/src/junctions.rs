//! Names in the root of the domain that lead to trees of other servers, as the set has agreed on them.
//!
//! What must never enter: how clients are told, and whether there are such servers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use view::{DecisionKind, Outcome, Referral, TransportError, ViewError};

use crate::handle::Replica;

/// How long the set may take to agree.
const AGREED: Duration = Duration::from_secs(10);

/// A name in the root of the domain, and the trees of other servers that it leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JunctionView {
    /// The name.
    pub name: String,
    /// Its targets, in the order of preference. In a request: none, to remove the name.
    pub to: Vec<Referral>,
}

impl Replica {
    /// The junctions that this replica knows of, by name.
    #[must_use]
    pub fn junctions(&self) -> Vec<JunctionView> {
        let state = self.local().view_state().unwrap_or_default();
        let junctions = state.junctions.iter().map(|(name, to)| JunctionView {
            name: name.clone(),
            to: to.clone(),
        });
        junctions.collect()
    }

    /// Lets the set agree that a name leads to these trees from now on, or to none.
    ///
    /// # Errors
    /// Why not, for people, with what to do next.
    pub async fn decide_junction(&self, junction: JunctionView) -> Result<(), String> {
        let Some(views) = self.local().views.get() else {
            return Err(
                "this server is about to join its set; try again when `meridian status` shows it ready"
                    .to_owned(),
            );
        };
        let decision = self.local().decision(DecisionKind::Junction {
            name: junction.name,
            to: junction.to,
        });
        let decided = tokio::time::timeout(AGREED, views.decide(decision)).await;
        conclude(decided.unwrap_or(Err(ViewError::OutcomeUnknown)))
    }
}

/// The outcome of a decision, for people.
fn conclude(decided: Result<Outcome, ViewError>) -> Result<(), String> {
    match decided {
        Ok(Outcome::Applied) => Ok(()),
        Ok(Outcome::Refused(why)) => Err(why),
        Err(error) if may_come_true(&error) => Err(
            "no majority of the set has said so far that it agrees, and it may still do so; look with `meridian junction list`, and try again if it has not"
                .to_owned(),
        ),
        Err(error) => Err(format!(
            "the set does not agree on it now: {error}; `meridian view` shows who takes part"
        )),
    }
}

/// Whether the set may still agree on a request, or has already agreed.
fn may_come_true(error: &ViewError) -> bool {
    match error {
        ViewError::OutcomeUnknown => true,
        ViewError::LeaderUnreachable { error, .. } => *error != TransportError::Unreachable,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use vfs::ReplicaSlot;

    use super::*;

    #[test]
    fn what_may_still_come_true_is_not_told_as_refused() {
        let leading = |error| ViewError::LeaderUnreachable {
            leader: ReplicaSlot(2),
            error,
        };
        let broken = leading(TransportError::Failed("closed".to_owned()));
        for unknown in [ViewError::OutcomeUnknown, broken] {
            let told = conclude(Err(unknown)).unwrap_err();
            assert!(told.contains("meridian junction list"), "{told}");
        }
        for refused in [ViewError::NoLeader, leading(TransportError::Unreachable)] {
            let told = conclude(Err(refused)).unwrap_err();
            assert!(told.contains("does not agree"), "{told}");
        }
    }
}
