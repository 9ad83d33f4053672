//! Exclusion and admission in one step.

use super::{configure, data, exclude, found, hold, refuse, slot};
use crate::decision::{Decision, DecisionKind};
use crate::state::Kind;

fn replace(out: &[u16], admitted: &[(u16, u64)], by: u16, seen_epoch: u64) -> Decision {
    let admitted = admitted.iter();
    Decision {
        by: slot(by),
        at_unix_s: 800,
        seen_epoch,
        kind: DecisionKind::Replace {
            out: out.iter().copied().map(slot).collect(),
            admitted: admitted
                .map(|(number, incarnation)| (slot(*number), *incarnation))
                .collect(),
            reason: "silent".to_owned(),
        },
    }
}

#[test]
fn one_takes_the_place_of_another_where_neither_step_alone_would_do() {
    let mut state = data(3);
    hold(&mut state, &exclude(2, 1, 1));
    let words = "1 active replicas would be left, and a majority is 2";
    refuse(&state, &exclude(3, 1, 2), words);
    hold(&mut state, &replace(&[3], &[(2, 7)], 1, 2));
    assert_eq!(state.active().collect::<Vec<_>>(), [slot(1), slot(2)]);
    let lost: Vec<u16> = state.losses.keys().map(|slot| slot.0).collect();
    assert_eq!(lost, [3], "the loss of the one that came is over");
    let (came, gone) = (&state.members[&slot(2)], &state.members[&slot(3)]);
    assert_eq!((came.since_epoch, came.incarnation), (3, 7));
    assert_eq!((came.excluded.as_ref(), gone.since_epoch), (None, 3));
    assert_eq!(gone.excluded.as_ref().unwrap().reason, "silent");
    let words = "excluded replica 3 and admitted replica 2 in one step: silent";
    assert_eq!(state.audit.back().unwrap().what, words);
}

#[test]
fn several_take_the_places_of_several() {
    let mut state = data(5);
    hold(&mut state, &exclude(4, 1, 1));
    hold(&mut state, &exclude(5, 1, 2));
    hold(&mut state, &replace(&[2, 3], &[(4, 2), (5, 2)], 1, 3));
    let active: Vec<u16> = state.active().map(|slot| slot.0).collect();
    assert_eq!(active, [1, 4, 5]);
}

#[test]
fn nobody_is_replaced_without_need_or_without_a_majority() {
    let mut state = data(3);
    let words = "2 active replicas would be left, which is a majority; nobody need be admitted";
    refuse(&state, &replace(&[3], &[], 1, 1), words);
    hold(&mut state, &exclude(2, 1, 1));
    let words = "judged in epoch 1, but the epoch is 2; try again";
    refuse(&state, &replace(&[3], &[(2, 7)], 1, 1), words);
    let words = "1 replicas would be active, and a majority is 2";
    refuse(&state, &replace(&[3], &[], 1, 2), words);
    let words = "replica 2 is not active";
    refuse(&state, &replace(&[3], &[(2, 7)], 2, 2), words);
    refuse(&state, &replace(&[2], &[(2, 7)], 1, 2), words);
    let words = "somebody else must be excluded";
    refuse(&state, &replace(&[1], &[(2, 7)], 1, 2), words);
    refuse(&state, &replace(&[], &[(2, 7)], 1, 2), words);
    let words = "replica 3 is active";
    refuse(&state, &replace(&[3], &[(3, 7)], 1, 2), words);
    let words = "replica 9 is not configured";
    refuse(&state, &replace(&[3], &[(9, 1)], 1, 2), words);
}

#[test]
fn who_takes_a_place_votes_and_is_not_known_as_a_later_incarnation() {
    let mut state = data(3);
    hold(&mut state, &exclude(2, 1, 1));
    hold(&mut state, &replace(&[3], &[(2, 7)], 1, 2));
    let words = "incarnation 6 of replica 2 is over; 7 was admitted";
    let mut later = state.clone();
    hold(&mut later, &replace(&[1], &[(3, 1)], 2, 3));
    refuse(
        &later,
        &replace(&[3], &[(1, 0), (2, 6)], 2, 4),
        "replica 2 is active",
    );
    hold(&mut later, &super::admit(1, 1, 4, 9));
    hold(&mut later, &exclude(2, 1, 5));
    refuse(&later, &replace(&[3], &[(2, 6)], 1, 6), words);
    hold(&mut state, &configure(4, 1));
    let words = "replica 4 was never active, and does not vote";
    refuse(&state, &replace(&[2], &[(4, 1)], 1, 4), words);
}

#[test]
fn somebody_who_has_the_answered_updates_is_left() {
    let kinds = [(1, Kind::Witness), (2, Kind::Data), (3, Kind::Data)];
    let (mut state, _) = found(&kinds);
    hold(&mut state, &exclude(2, 1, 1));
    let words = "no active replica that holds data would be left";
    refuse(&state, &replace(&[3], &[(2, 7)], 1, 2), words);
}
