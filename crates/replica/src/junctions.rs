//! Names in the root of the domain that lead to trees of other servers, as the set has agreed on them.
//!
//! What must never enter: how clients are told, and whether there are such servers.

use std::time::Duration;

use view::{DecisionKind, Outcome, Referral};

use crate::handle::Replica;

/// So long the set may take to agree.
const AGREED: Duration = Duration::from_secs(10);

/// A name, and the trees that it leads to: servers with paths, in the order of preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JunctionView {
    /// The name.
    pub name: String,
    /// Where it leads: name or address of a server, and the path of the tree there.
    pub to: Vec<(String, String)>,
}

impl Replica {
    /// The junctions that this replica knows of, by name.
    #[must_use]
    pub fn junctions(&self) -> Vec<JunctionView> {
        let state = self.shared().view_state().unwrap_or_default();
        let junctions = state.junctions.iter().map(|(name, to)| JunctionView {
            name: name.clone(),
            to: to
                .iter()
                .map(|to| (to.server.clone(), to.path.clone()))
                .collect(),
        });
        junctions.collect()
    }

    /// Has the set agree that a name leads to these trees from now on, or to none.
    ///
    /// # Errors
    /// Why it does not, for people, with what to do next.
    pub async fn decide_junction(&self, junction: JunctionView) -> Result<(), String> {
        let Some(views) = self.shared().views.get() else {
            return Err(
                "this server is about to join its set; try again when `meridian status` shows it ready"
                    .to_owned(),
            );
        };
        let to = junction.to.into_iter();
        let decision = self.shared().decision(DecisionKind::Junction {
            name: junction.name,
            to: to.map(|(server, path)| Referral { server, path }).collect(),
        });
        match tokio::time::timeout(AGREED, views.decide(decision)).await {
            Ok(Ok(Outcome::Applied)) => Ok(()),
            Ok(Ok(Outcome::Refused(why))) => Err(why),
            Ok(Err(error)) => Err(format!(
                "the set does not agree on it now: {error}; `meridian view` shows who takes part"
            )),
            Err(_) => Err(format!(
                "no majority of the set has agreed within {} s; look with `meridian junction list` whether it did later, and try again",
                AGREED.as_secs()
            )),
        }
    }
}
