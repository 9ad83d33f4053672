//! Operations over homes that were interrupted are brought to their ends, as soon as the servers that they need answer.
//!
//! What must never enter: what is done for each.

use std::time::Duration;

use tokio::task::JoinSet;
use vfs::ReplicaSlot;

use super::{PoolTree, locked};

/// How long a round waits. A server that is silent for longer is waited for beside later rounds.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is settled, and the server that is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Moves that are passed on, by their source.
    Passed(ReplicaSlot),
    /// Moves to this home, by their source.
    Came(ReplicaSlot),
    /// Moves from this home, by their decider.
    Leaving(ReplicaSlot),
    /// Numbers of names, by the home that is told.
    Owed(ReplicaSlot),
    /// Numbers of names, by the home that is asked.
    Unsure(ReplicaSlot),
}

/// Marks a part as being settled.
struct Settling<'p>(&'p PoolTree, Part);

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        locked(&self.0.settling_now).remove(&self.1);
    }
}

impl PoolTree {
    /// Settles operations over several homes. Call it about once a second. A server that is away, or silent, holds up only what needs it.
    pub async fn settle_over_homes(&self) {
        let mut tasks = JoinSet::new();
        for part in self.parts() {
            let Ok(tree) = self.this() else { return };
            if locked(&self.settling_now).insert(part) {
                tasks.spawn(async move {
                    let _settling = Settling(&tree, part);
                    tree.settle_part(part).await;
                });
            }
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(PATIENCE, all).await;
        tasks.detach_all();
    }

    fn parts(&self) -> Vec<Part> {
        let unsure: Vec<ReplicaSlot> = locked(&self.unsure).keys().copied().collect();
        let leaving = self.deciders_of_leaving().into_iter().map(Part::Leaving);
        let passed = self.sources_of_passed().into_iter().map(Part::Passed);
        let came = self.sources_of_came().into_iter().map(Part::Came);
        let owed = self.owed_to().into_iter().map(Part::Owed);
        let all = leaving.chain(passed).chain(came).chain(owed);
        all.chain(unsure.into_iter().map(Part::Unsure)).collect()
    }

    async fn settle_part(&self, part: Part) {
        match part {
            Part::Passed(source) => self.settle_passed(source).await,
            Part::Came(source) => self.settle_came(source).await,
            Part::Leaving(decider) => self.settle_leaving(decider).await,
            Part::Owed(to) => self.settle_owed(to).await,
            Part::Unsure(at) => self.settle_unsure(at).await,
        }
    }
}
