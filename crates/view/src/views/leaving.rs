//! Checks that enough members remain to agree when members leave the view. A decision that would be refused is not even
//! proposed: it is repeated again and again, and every member would write it each time.
//!
//! What must never enter: the effect of a decision (`state`).

use std::collections::BTreeSet;

use super::Core;
use crate::decision::{Decision, DecisionKind, Outcome};
use crate::raft::types::id;
use crate::state::ViewState;

impl Core {
    /// Why this decision leaves too few members, as known here, for people. If the decision was judged in another
    /// epoch, members that know that epoch decide.
    pub(super) fn leaves_too_few(&self, decision: &Decision) -> Option<String> {
        let stored = self.raft.metrics().borrow().membership_config.clone();
        let state = self.state.borrow().clone();
        too_few(&state, stored.membership().get_joint_config(), decision)
    }
}

fn too_few(state: &ViewState, configs: &[BTreeSet<u64>], decision: &Decision) -> Option<String> {
    let leaves = matches!(
        decision.kind,
        DecisionKind::Exclude { .. } | DecisionKind::Replace { .. }
    );
    if !leaves || decision.seen_epoch != state.epoch {
        return None;
    }
    let mut then = state.clone();
    if let Outcome::Refused(why) = then.decide(decision) {
        return Some(why);
    }
    // A recently removed member still counts as a voter until the library has followed the state, but it agrees to nothing.
    let active: BTreeSet<u64> = then.active().map(id).collect();
    let mut short = configs
        .iter()
        .map(|voters| (active.intersection(voters).count(), voters.len()))
        .filter(|(left, count)| *left <= count / 2);
    short
        .next()
        .map(|(left, count)| format!("{left} of {count} who still count would be left to agree"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vfs::ReplicaSlot;

    use super::*;
    use crate::decision::Command;
    use crate::state::Kind;

    const FIRST: ReplicaSlot = ReplicaSlot(1);

    fn set(count: u16) -> ViewState {
        let founders = (1..=count).map(|slot| (ReplicaSlot(slot), Kind::Data));
        founded(founders.collect())
    }

    fn founded(founders: BTreeMap<ReplicaSlot, Kind>) -> ViewState {
        let mut state = ViewState::default();
        let found = Command::Found {
            founders,
            by: FIRST,
            at_unix_s: 1,
        };
        assert_eq!(state.apply(&found), Outcome::Applied);
        state
    }

    fn exclude(state: &ViewState, slot: u16) -> Decision {
        Decision {
            by: FIRST,
            at_unix_s: 1,
            seen_epoch: state.epoch,
            kind: DecisionKind::Exclude {
                slot: ReplicaSlot(slot),
                reason: "it does not answer".to_owned(),
            },
        }
    }

    fn is_refused(state: &ViewState, configs: &[&[u64]], decision: &Decision) -> bool {
        let configs: Vec<BTreeSet<u64>> = configs
            .iter()
            .map(|ids| ids.iter().copied().collect())
            .collect();
        too_few(state, &configs, decision).is_some()
    }

    #[test]
    fn who_was_removed_and_still_counts_makes_too_few_of_those_who_are_left() {
        let mut state = set(4);
        let four: &[u64] = &[1, 2, 3, 4];
        assert!(!is_refused(&state, &[four], &exclude(&state, 4)));
        assert_eq!(state.decide(&exclude(&state, 4)), Outcome::Applied);
        assert!(is_refused(&state, &[four], &exclude(&state, 3)));
        let settled = crate::Settlement {
            through: 0,
            incarnation_below: 1,
            names: None,
            by: crate::SettledBy::Takeover,
            at_unix_s: 1,
            id: 0,
        };
        let settle = Decision {
            by: FIRST,
            at_unix_s: 1,
            seen_epoch: state.epoch,
            kind: DecisionKind::Settle {
                slot: ReplicaSlot(4),
                settlement: settled,
            },
        };
        assert_eq!(state.decide(&settle), Outcome::Applied);
        let remove = Decision {
            by: FIRST,
            at_unix_s: 1,
            seen_epoch: 0,
            kind: DecisionKind::Remove {
                slot: ReplicaSlot(4),
            },
        };
        assert_eq!(state.decide(&remove), Outcome::Applied);
        // The state has three members by now, and may continue with two of them.
        let three: &[u64] = &[1, 2, 3];
        let exclude = exclude(&state, 3);
        assert!(is_refused(&state, &[four], &exclude));
        assert!(is_refused(&state, &[four, three], &exclude));
        assert!(!is_refused(&state, &[three], &exclude));
    }

    #[test]
    fn of_two_and_a_witness_one_may_go_and_no_second() {
        let three: &[u64] = &[1, 2, 3];
        for (first, second) in [(2, 3), (3, 2)] {
            let kind = |slot: u16| if slot == 3 { Kind::Witness } else { Kind::Data };
            let founders = (1..=3).map(|slot| (ReplicaSlot(slot), kind(slot)));
            let mut state = founded(founders.collect());
            assert!(!is_refused(&state, &[three], &exclude(&state, first)));
            assert_eq!(state.decide(&exclude(&state, first)), Outcome::Applied);
            assert!(is_refused(&state, &[three], &exclude(&state, second)));
        }
    }

    #[test]
    fn what_was_judged_elsewhere_in_another_epoch_is_left_to_the_others() {
        let state = set(2);
        let decision = exclude(&state, 2);
        assert!(is_refused(&state, &[&[1, 2]], &decision));
        let mut later = state;
        later.epoch += 1;
        assert!(!is_refused(&later, &[&[1, 2]], &decision));
    }

    #[test]
    fn who_takes_a_place_counts_among_those_who_are_left() {
        let mut state = set(3);
        assert_eq!(state.decide(&exclude(&state, 3)), Outcome::Applied);
        let replace = Decision {
            by: FIRST,
            at_unix_s: 1,
            seen_epoch: state.epoch,
            kind: DecisionKind::Replace {
                out: BTreeSet::from([ReplicaSlot(2)]),
                admitted: BTreeMap::from([(ReplicaSlot(3), 1)]),
                reason: "it does not answer".to_owned(),
            },
        };
        let three: &[u64] = &[1, 2, 3];
        assert!(!is_refused(&state, &[three], &replace));
        assert!(is_refused(&state, &[three], &exclude(&state, 2)));
    }
}
