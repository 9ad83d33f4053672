//! The voters in Raft follow the state: members that were ever active vote, and the newcomer only listens.
//!
//! The state is decided first. Then the leader adjusts the library's membership to it. If it fails in the middle, the
//! next leader continues (`keeper`). What must never enter: changes of the state.

use std::collections::BTreeSet;
use std::fmt;

use openraft::{ChangeMembers, EmptyNode};
use tokio::time::timeout;
use vfs::ReplicaSlot;

use super::Core;
use super::leading::denial;
use crate::raft::types::id;
use crate::raft::wire::Denial;
use crate::state::ViewState;

/// The next change that brings the library's membership closer to the state.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Listen(u64),
    Vote(BTreeSet<u64>),
    Forget(BTreeSet<u64>),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |replicas: &BTreeSet<u64>| {
            let replicas: Vec<String> = replicas.iter().map(ToString::to_string).collect();
            replicas.join(", ")
        };
        match self {
            Step::Listen(replica) => write!(f, "replica {replica} listens"),
            Step::Vote(replicas) => write!(f, "these vote: {}", listed(replicas)),
            Step::Forget(replicas) => write!(f, "these are forgotten: {}", listed(replicas)),
        }
    }
}

fn next_step(state: &ViewState, configs: &[BTreeSet<u64>], nodes: &BTreeSet<u64>) -> Option<Step> {
    let wanted: BTreeSet<u64> = state.members.keys().copied().map(id).collect();
    let voters: BTreeSet<u64> = state.voters().into_iter().map(id).collect();
    if state.epoch == 0 || voters.is_empty() {
        return None;
    }
    if let Some(unknown) = wanted.difference(nodes).next() {
        return Some(Step::Listen(*unknown));
    }
    if configs != [voters.clone()] {
        return Some(Step::Vote(voters));
    }
    let surplus: BTreeSet<u64> = nodes.difference(&wanted).copied().collect();
    (!surplus.is_empty()).then_some(Step::Forget(surplus))
}

impl Core {
    /// The leader's next step.
    fn next_step(&self) -> Option<Step> {
        let metrics = self.raft.server_metrics();
        let stored = metrics.borrow().membership_config.clone();
        let nodes = stored.nodes().map(|(id, _)| *id).collect();
        let state = self.state.borrow();
        next_step(&state, stored.membership().get_joint_config(), &nodes)
    }

    /// Whether the library's membership matches the state.
    pub(super) fn is_aligned(&self) -> bool {
        self.next_step().is_none()
    }

    /// Whether this member leads and the library's membership does not match the state.
    fn must_align(&self) -> bool {
        self.leader() == Some(self.slot) && !self.is_aligned()
    }

    /// Runs [`Core::align`], one run at a time.
    pub(super) async fn voters_follow(&self) {
        if self.must_align() {
            let _changing = self.voters.lock().await;
            self.align().await;
        }
    }

    /// Adjusts the membership to the state. The keeper, or the next leader, repeats a failed step.
    pub(super) async fn align(&self) {
        // The four steps: add a listener, enter a joint configuration, leave it, remove a member.
        for _ in 0..4 {
            let Some(step) = self.next_step() else { return };
            tracing::info!(%step, "who votes follows the view");
            if let Err(denial) = self.change(step).await {
                tracing::warn!(why = %denial, "who votes could not be changed now");
                return;
            }
        }
    }

    async fn change(&self, step: Step) -> Result<(), Denial> {
        let raft = &self.raft;
        let limit = self.settings.decision_limit;
        let changed = match step {
            Step::Listen(id) => timeout(limit, raft.add_learner(id, EmptyNode::new(), false)).await,
            Step::Vote(ids) => timeout(limit, raft.change_membership(ids, false)).await,
            Step::Forget(ids) => {
                let change = ChangeMembers::RemoveNodes(ids);
                timeout(limit, raft.change_membership(change, false)).await
            }
        };
        match changed {
            Ok(changed) => changed.map(|_| ()).map_err(denial),
            Err(_elapsed) => Err(Denial::OutcomeUnknown),
        }
    }

    /// Makes a future member a listener, and waits until it has received the log.
    pub(super) async fn teach(&self, slot: ReplicaSlot) -> Result<(), Denial> {
        let target = id(slot);
        self.change(Step::Listen(target)).await?;
        let up_to = self.raft.metrics().borrow().last_log_index;
        let taught = self.raft.wait(Some(self.settings.newcomer_limit));
        let taught = taught.metrics(
            |metrics| {
                let Some(replication) = &metrics.replication else {
                    return true; // Leads no longer.
                };
                let matched = replication.get(&target).copied().flatten();
                matched.map(|matched| matched.index) >= up_to
            },
            "a new member takes in the log",
        );
        match taught.await {
            Ok(metrics) if metrics.replication.is_none() => Err(Denial::NotLeader),
            Ok(_) => Ok(()),
            Err(_timeout) => Err(Denial::NewcomerUnreachable(slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Kind, MemberState};

    fn state(members: &[(u16, bool)]) -> ViewState {
        let mut state = ViewState {
            epoch: 1,
            ..ViewState::default()
        };
        for (slot, was_active) in members {
            let member = MemberState {
                kind: Kind::Data,
                active: *was_active,
                since_epoch: 1,
                incarnation: 0,
                was_active: *was_active,
                excluded: None,
            };
            state.members.insert(ReplicaSlot(*slot), member);
        }
        state
    }

    fn step(state: &ViewState, configs: &[&[u64]], nodes: &[u64]) -> Option<Step> {
        let configs: Vec<BTreeSet<u64>> = configs
            .iter()
            .map(|ids| ids.iter().copied().collect())
            .collect();
        next_step(state, &configs, &nodes.iter().copied().collect())
    }

    #[test]
    fn a_newcomer_listens_and_votes_only_once_it_was_active() {
        let newcomer = state(&[(1, true), (2, false)]);
        assert_eq!(step(&newcomer, &[&[1]], &[1]), Some(Step::Listen(2)));
        assert_eq!(step(&newcomer, &[&[1]], &[1, 2]), None);
        let admitted = state(&[(1, true), (2, true)]);
        let vote = Some(Step::Vote([1, 2].into()));
        assert_eq!(step(&admitted, &[&[1]], &[1, 2]), vote);
        assert_eq!(step(&admitted, &[&[1], &[1, 2]], &[1, 2]), vote);
        assert_eq!(step(&admitted, &[&[1, 2]], &[1, 2]), None);
    }

    #[test]
    fn a_removed_member_votes_no_longer_and_is_forgotten() {
        let left = state(&[(1, true)]);
        let vote = Some(Step::Vote([1].into()));
        assert_eq!(step(&left, &[&[1, 2]], &[1, 2]), vote);
        let forget = Some(Step::Forget([2].into()));
        assert_eq!(step(&left, &[&[1]], &[1, 2]), forget);
    }

    #[test]
    fn nothing_is_changed_before_the_set_is_founded() {
        assert_eq!(step(&ViewState::default(), &[&[1]], &[1]), None);
    }
}
