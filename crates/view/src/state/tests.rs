//! What every decision does, and every reason to refuse one.

mod replacing;

use super::{Kind, ViewState};
use crate::audit::{AUDIT_ENTRIES_MAX, REASON_BYTES_MAX};
use crate::decision::{
    Command, Decision, DecisionKind, Outcome, SETTLEMENT_NAMES_MAX, SettledBy, Settlement,
};
use vfs::ReplicaSlot;

fn slot(number: u16) -> ReplicaSlot {
    ReplicaSlot(number)
}

fn found(members: &[(u16, Kind)]) -> (ViewState, Outcome) {
    let mut state = ViewState::default();
    let founders = members.iter().map(|(number, kind)| (slot(*number), *kind));
    let command = Command::Found {
        founders: founders.collect(),
        by: slot(1),
        at_unix_s: 100,
    };
    let outcome = state.apply(&command);
    (state, outcome)
}

fn data(count: u16) -> ViewState {
    let members: Vec<(u16, Kind)> = (1..=count).map(|number| (number, Kind::Data)).collect();
    found(&members).0
}

fn exclude(number: u16, by: u16, seen_epoch: u64) -> Decision {
    Decision {
        by: slot(by),
        at_unix_s: 200,
        seen_epoch,
        kind: DecisionKind::Exclude {
            slot: slot(number),
            reason: "silent".to_owned(),
        },
    }
}

fn admit(number: u16, by: u16, seen_epoch: u64, incarnation: u64) -> Decision {
    Decision {
        by: slot(by),
        at_unix_s: 300,
        seen_epoch,
        kind: DecisionKind::Admit {
            slot: slot(number),
            incarnation,
        },
    }
}

fn configure(number: u16, by: u16) -> Decision {
    Decision {
        by: slot(by),
        at_unix_s: 400,
        seen_epoch: 0,
        kind: DecisionKind::Configure {
            slot: slot(number),
            kind: Kind::Data,
        },
    }
}

fn remove(number: u16, by: u16) -> Decision {
    Decision {
        by: slot(by),
        at_unix_s: 500,
        seen_epoch: 0,
        kind: DecisionKind::Remove { slot: slot(number) },
    }
}

fn settlement(through: u64, incarnation_below: u64, names: Option<usize>) -> Settlement {
    Settlement {
        through,
        incarnation_below,
        names: names.map(|count| vec![(3, 4); count]),
        by: SettledBy::Takeover,
        at_unix_s: 600,
        id: 0,
    }
}

fn settle(number: u16, by: u16, seen_epoch: u64, settlement: Settlement) -> Decision {
    Decision {
        by: slot(by),
        at_unix_s: 600,
        seen_epoch,
        kind: DecisionKind::Settle {
            slot: slot(number),
            settlement,
        },
    }
}

fn recover(survivors: &[u16], by: u16) -> Decision {
    Decision {
        by: slot(by),
        at_unix_s: 700,
        seen_epoch: 0,
        kind: DecisionKind::Recover {
            survivors: survivors.iter().copied().map(slot).collect(),
        },
    }
}

/// Applies a decision that must hold.
fn hold(state: &mut ViewState, decision: &Decision) {
    let epoch = state.epoch;
    assert_eq!(state.decide(decision), Outcome::Applied, "{decision:?}");
    let is_settlement = matches!(decision.kind, DecisionKind::Settle { .. });
    assert_eq!(state.epoch, epoch + u64::from(!is_settlement));
    assert_eq!(state.audit.back().unwrap().epoch, state.epoch);
}

/// Applies a decision that must be refused with these words, and change nothing.
fn refuse(state: &ViewState, decision: &Decision, words: &str) {
    let mut after = state.clone();
    let refused = Outcome::Refused(words.to_owned());
    assert_eq!(after.decide(decision), refused, "{decision:?}");
    assert_eq!(after, *state);
}

#[test]
fn founders_are_active_in_epoch_one() {
    let (state, outcome) = found(&[(1, Kind::Data), (2, Kind::Data), (3, Kind::Witness)]);
    assert_eq!((outcome, state.epoch), (Outcome::Applied, 1));
    assert_eq!(state.active().count(), 3);
    assert_eq!((state.majority(), state.newcomer()), (2, None));
    let entry = state.audit.back().unwrap();
    assert_eq!((entry.epoch, entry.at_unix_s, entry.by), (1, 100, slot(1)));
    assert_eq!(entry.what, "founded the set with replicas 1, 2, 3");
}

#[test]
fn a_set_is_founded_once_by_somebody_with_data() {
    let refused = |words: &str| Outcome::Refused(words.to_owned());
    assert_eq!(found(&[]).1, refused("a set has one to 9 members"));
    let ten: Vec<(u16, Kind)> = (1..=10).map(|number| (number, Kind::Data)).collect();
    assert_eq!(found(&ten).1, refused("a set has one to 9 members"));
    let nobody = refused("slot 0 belongs to no replica");
    assert_eq!(found(&[(0, Kind::Data)]).1, nobody);
    let witness = refused("one member at least must hold data");
    assert_eq!(found(&[(1, Kind::Witness)]).1, witness);
    let mut state = data(1);
    let again = Command::Found {
        founders: [(slot(1), Kind::Data)].into(),
        by: slot(1),
        at_unix_s: 1,
    };
    assert_eq!(state.apply(&again), refused("the set was founded before"));
    let empty = ViewState::default();
    refuse(&empty, &exclude(1, 1, 0), "the set has not been founded");
}

#[test]
fn an_excluded_replica_is_lost_until_it_is_admitted() {
    let mut state = data(3);
    hold(&mut state, &admit(3, 3, 1, 11));
    hold(&mut state, &exclude(3, 1, 2));
    assert!(!state.is_active(slot(3)));
    let member = &state.members[&slot(3)];
    assert_eq!((member.since_epoch, member.was_active), (3, true));
    let exclusion = member.excluded.as_ref().unwrap();
    assert_eq!((exclusion.at_unix_s, exclusion.by), (200, slot(1)));
    let loss = &state.losses[&slot(3)];
    assert_eq!((loss.incarnation, loss.since_unix_s), (11, 200));
    let what = &state.audit.back().unwrap().what;
    assert_eq!(what, "excluded replica 3: silent");
    hold(&mut state, &admit(3, 2, 3, 12));
    let member = &state.members[&slot(3)];
    assert_eq!((member.active, member.since_epoch), (true, 4));
    assert_eq!((member.incarnation, &member.excluded), (12, &None));
    assert!(state.losses.is_empty());
}

#[test]
fn an_exclusion_is_refused() {
    let mut state = data(4);
    let old = "judged in epoch 0, but the epoch is 1; try again";
    refuse(&state, &exclude(4, 1, 0), old);
    refuse(&state, &exclude(4, 7, 1), "replica 7 is not active");
    refuse(&state, &exclude(7, 1, 1), "replica 7 is not active");
    hold(&mut state, &exclude(4, 4, 1));
    refuse(&state, &exclude(4, 1, 2), "replica 4 is not active");
    refuse(&state, &exclude(3, 4, 2), "replica 4 is not active");
    let few = "2 active replicas would be left, and a majority is 3";
    refuse(&state, &exclude(3, 1, 2), few);
    let (mut witnesses, _) = found(&[(1, Kind::Data), (2, Kind::Witness), (3, Kind::Witness)]);
    let none = "no active replica that holds data would be left";
    refuse(&witnesses, &exclude(1, 2, 1), none);
    hold(&mut witnesses, &exclude(2, 3, 1));
}

#[test]
fn a_newcomer_counts_for_no_majority_until_it_is_admitted() {
    let mut state = data(3);
    hold(&mut state, &configure(4, 1));
    hold(&mut state, &exclude(3, 1, 2));
    let few = "1 active replicas would be left, and a majority is 2";
    refuse(&state, &exclude(2, 1, 3), few);
    hold(&mut state, &admit(4, 4, 3, 1));
    let few = "2 active replicas would be left, and a majority is 3";
    refuse(&state, &exclude(4, 1, 4), few);
}

#[test]
fn a_newcomer_that_never_comes_can_be_removed_while_another_member_is_lost() {
    let mut state = data(3);
    hold(&mut state, &configure(4, 1));
    hold(&mut state, &exclude(3, 1, 2));
    hold(&mut state, &remove(4, 1));
    assert_eq!((state.majority(), state.newcomer()), (2, None));
}

#[test]
fn an_admission_is_refused() {
    let mut state = data(3);
    let old = "judged in epoch 0, but the epoch is 1; try again";
    refuse(&state, &admit(1, 1, 0, 1), old);
    refuse(&state, &admit(1, 9, 1, 1), "replica 9 is not active");
    refuse(&state, &admit(9, 1, 1, 1), "replica 9 is not configured");
    refuse(&state, &admit(1, 1, 1, 0), "replica 1 is active");
    hold(&mut state, &admit(1, 2, 1, 5));
    let member = &state.members[&slot(1)];
    assert_eq!(member.since_epoch, 2, "its earlier life is over");
    refuse(&state, &admit(1, 2, 2, 5), "replica 1 is active");
    let over = "incarnation 4 of replica 1 is over; 5 was admitted";
    refuse(&state, &admit(1, 2, 2, 4), over);
}

/// Slots of removed members are never used again; one that was withdrawn has not been a member yet.
#[test]
fn a_newcomer_that_was_withdrawn_can_be_configured_again_and_no_other_member_is_withdrawn() {
    let mut state = data(2);
    let withdraw = |number: u16| Decision {
        by: slot(1),
        at_unix_s: 0,
        seen_epoch: 0,
        kind: DecisionKind::Withdraw { slot: slot(number) },
    };
    refuse(&state, &withdraw(2), "replica 2 is no newcomer");
    refuse(&state, &withdraw(3), "replica 3 is no newcomer");
    hold(&mut state, &configure(3, 1));
    hold(&mut state, &withdraw(3));
    assert_eq!((state.newcomer(), state.members.len()), (None, 2));
    assert!(state.removed.is_empty() && state.losses.is_empty());
    hold(&mut state, &configure(3, 1));
    assert_eq!(state.newcomer(), Some(slot(3)));
}

#[test]
fn a_configuration_grows_by_one_newcomer_at_a_time() {
    let mut state = data(1);
    refuse(&state, &configure(2, 3), "replica 3 is not active");
    refuse(&state, &configure(1, 1), "replica 1 is configured");
    refuse(&state, &configure(0, 1), "slot 0 cannot be used");
    hold(&mut state, &configure(2, 1));
    assert_eq!(state.newcomer(), Some(slot(2)));
    assert_eq!(state.voters(), [slot(1)].into());
    assert_eq!((state.majority(), state.is_active(slot(2))), (1, false));
    let waits = "replica 2 was configured before and is not active yet";
    refuse(&state, &configure(3, 1), waits);
    hold(&mut state, &admit(2, 1, 2, 1));
    assert_eq!(state.voters(), [slot(1), slot(2)].into());
    assert_eq!(state.majority(), 2);
    let state = data(9);
    refuse(&state, &configure(10, 1), "a set has at most 9 members");
}

#[test]
fn a_removal_leaves_a_majority_and_frees_no_slot() {
    let mut state = data(3);
    refuse(&state, &remove(9, 1), "replica 9 is not configured");
    refuse(&state, &remove(3, 9), "replica 9 is not active");
    hold(&mut state, &exclude(3, 1, 1));
    let few = "1 active replicas would be left, and a majority is 2";
    refuse(&state, &remove(2, 1), few);
    hold(&mut state, &settle(3, 1, 2, settlement(50, 9, None)));
    hold(&mut state, &remove(3, 1));
    refuse(&state, &configure(3, 1), "slot 3 cannot be used");
    hold(&mut state, &remove(2, 1));
    let last = "0 active replicas would be left, and a majority is 1";
    refuse(&state, &remove(1, 1), last);
    let (state, _) = found(&[(1, Kind::Data), (2, Kind::Witness)]);
    let none = "no active replica that holds data would be left";
    refuse(&state, &remove(1, 2), none);
}

/// Counterexample 41 in the state: of one that was removed nothing is left to decide, no matter
/// which replica takes part later.
#[test]
fn counterexample_41_a_loss_is_settled_before_the_removal() {
    let mut state = data(3);
    let inside = "replica 3 takes part; it has to leave the view before";
    refuse(&state, &remove(3, 1), inside);
    hold(&mut state, &exclude(3, 1, 1));
    let open = "replica 3 is lost, and it is not decided what becomes of that which it alone had";
    refuse(&state, &remove(3, 1), open);
    hold(&mut state, &settle(3, 1, 2, settlement(50, 0, Some(2))));
    refuse(&state, &remove(3, 1), open);
    hold(&mut state, &settle(3, 1, 2, settlement(50, 9, None)));
    hold(&mut state, &remove(3, 1));
    assert!(state.losses.is_empty() && state.is_gone(slot(3)) && state.is_settled(slot(3)));
    let end = state.stream_end(slot(3)).unwrap();
    assert_eq!((end.through, end.settlement), (50, 2));
    assert_eq!(
        state.settled_streams().collect::<Vec<_>>(),
        [(slot(3), end)]
    );
    let lost = "replica 3 is not lost";
    refuse(&state, &settle(3, 1, 3, settlement(60, 9, None)), lost);
}

#[test]
fn the_last_one_beside_who_decides_is_removed_at_once_and_a_witness_whenever() {
    let mut state = data(2);
    hold(&mut state, &remove(2, 1));
    let end = state.stream_end(slot(2)).unwrap();
    assert_eq!((end.through, end.settlement), (u64::MAX, 1));
    assert!(state.is_gone(slot(2)) && state.losses.is_empty());
    let members = [(1, Kind::Data), (2, Kind::Data), (3, Kind::Witness)];
    let (mut state, _) = found(&members);
    hold(&mut state, &exclude(3, 1, 1));
    hold(&mut state, &remove(3, 1));
    assert!(state.is_gone(slot(3)) && state.losses.is_empty());
}

#[test]
fn settlements_are_numbered_and_leave_the_epoch() {
    let mut state = data(3);
    refuse(
        &state,
        &settle(3, 1, 1, settlement(50, 9, None)),
        "replica 3 is not lost",
    );
    hold(&mut state, &exclude(3, 1, 1));
    hold(&mut state, &settle(3, 1, 2, settlement(50, 0, Some(2))));
    let what = &state.audit.back().unwrap().what;
    let words = "ended 2 controls of replica 3 after position 50, taken over";
    assert_eq!(what, words);
    let mut all = settlement(50, 9, None);
    all.by = SettledBy::Administrator {
        reason: "the disk is gone".to_owned(),
    };
    hold(&mut state, &settle(3, 2, 2, all.clone()));
    let what = &state.audit.back().unwrap().what;
    let words = "ended all controls of replica 3 after position 50, given up: the disk is gone";
    assert_eq!(what, words);
    let ids: Vec<u64> = state.losses[&slot(3)]
        .settled
        .iter()
        .map(|s| s.id)
        .collect();
    assert_eq!((ids, state.settlements), (vec![1, 2], 2));
    let old = "judged in epoch 1, but the epoch is 2; try again";
    refuse(&state, &settle(3, 1, 1, settlement(60, 9, None)), old);
    let by = "replica 3 is not active";
    refuse(&state, &settle(3, 3, 2, settlement(60, 9, None)), by);
    let less = "an earlier settlement keeps more of the stream";
    refuse(&state, &settle(3, 1, 2, settlement(49, 9, None)), less);
    refuse(&state, &settle(3, 1, 2, all), "settled before");
}

#[test]
fn settlements_by_name_are_bounded() {
    let mut state = data(3);
    hold(&mut state, &exclude(3, 1, 1));
    let long = settlement(1, 0, Some(SETTLEMENT_NAMES_MAX + 1));
    let words = "a settlement has at most 1024 names";
    refuse(&state, &settle(3, 1, 2, long), words);
    let named = settle(3, 1, 2, settlement(1, 0, Some(SETTLEMENT_NAMES_MAX)));
    for _ in 0..64 {
        hold(&mut state, &named);
    }
    let words = "too many settlements by name; settle all controls at once";
    refuse(&state, &named, words);
    hold(&mut state, &settle(3, 1, 2, settlement(1, 9, None)));
}

#[test]
fn recovery_gives_up_the_others() {
    let mut state = data(5);
    hold(&mut state, &exclude(5, 1, 1));
    let words = "survivors must be configured, the deciding one among them";
    refuse(&state, &recover(&[1, 9], 1), words);
    refuse(&state, &recover(&[1], 2), words);
    refuse(&state, &recover(&[], 1), words);
    let mut stale = state.clone();
    hold(&mut state, &recover(&[1, 5], 1));
    assert_eq!(state.members.len(), 2);
    assert_eq!(state.active().collect::<Vec<_>>(), [slot(1)]);
    let lost: Vec<u16> = state.losses.keys().map(|slot| slot.0).collect();
    assert_eq!(lost, [2, 3, 4, 5]);
    refuse(&state, &configure(2, 1), "slot 2 cannot be used");
    assert!(!state.is_gone(slot(2)), "nobody has agreed about its loss");
    hold(&mut state, &settle(2, 1, 3, settlement(7, 9, None)));
    assert!(state.is_gone(slot(2)) && !state.losses.contains_key(&slot(2)));
    assert_eq!(state.stream_end(slot(2)).unwrap().through, 7);
    // If nobody active survives, the one where it was said goes on with what it has.
    hold(&mut stale, &recover(&[5], 5));
    assert!(stale.is_active(slot(5)));
    assert!(!stale.losses.contains_key(&slot(5)));
}

#[test]
fn recovery_never_leaves_a_witness_alone() {
    let (mut state, _) = found(&[(1, Kind::Data), (2, Kind::Data), (3, Kind::Witness)]);
    hold(&mut state, &exclude(2, 1, 1));
    let words = "replica 3 is a witness; it holds no data";
    refuse(&state, &recover(&[2, 3], 3), words);
    hold(&mut state, &recover(&[2, 3], 2));
    assert_eq!(state.active().collect::<Vec<_>>(), [slot(2), slot(3)]);
}

#[test]
fn the_audit_and_its_words_are_bounded() {
    let mut state = data(3);
    for round in 0..600 {
        let seen = state.epoch;
        let mut decision = exclude(3, 1, seen);
        if let DecisionKind::Exclude { reason, .. } = &mut decision.kind {
            *reason = "ä".repeat(600);
        }
        hold(&mut state, &decision);
        hold(&mut state, &admit(3, 1, seen + 1, round + 1));
    }
    assert_eq!(state.audit.len(), AUDIT_ENTRIES_MAX);
    assert_eq!(state.audit.back().unwrap().epoch, 1201);
    assert_eq!(state.audit.front().unwrap().epoch, 202);
    let longest = state.audit.iter().map(|entry| entry.what.len()).max();
    assert!(longest.unwrap() < REASON_BYTES_MAX + 50, "{longest:?}");
}

#[test]
fn what_a_person_does_is_noted_and_begins_no_epoch() {
    let mut state = data(3);
    let note = |by: u16, what: String| Decision {
        by: slot(by),
        at_unix_s: 700,
        seen_epoch: 0,
        kind: DecisionKind::Note { what },
    };
    let epoch = state.epoch;
    let outcome = state.decide(&note(2, "sent its clients away".to_owned()));
    assert_eq!((outcome, state.epoch), (Outcome::Applied, epoch));
    let entry = state.audit.back().unwrap();
    assert_eq!((entry.by, entry.at_unix_s), (slot(2), 700));
    assert_eq!(entry.what, "sent its clients away");
    state.decide(&note(2, "x".repeat(2 * REASON_BYTES_MAX)));
    assert_eq!(state.audit.back().unwrap().what.len(), REASON_BYTES_MAX);
    let before = state.audit.len();
    let refused = state.decide(&note(9, "from nowhere".to_owned()));
    assert!(matches!(refused, Outcome::Refused(_)));
    assert_eq!(state.audit.len(), before);
}
