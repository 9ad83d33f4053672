//! From the signed list of members to the configuration that the set agrees on.
//!
//! The set changes one member at a time, and only when all active members know every control, and have every update, of earlier configurations.
//! Otherwise majorities of two configurations might not meet (rule 31). A member to be removed first leaves the view. Then the set settles what
//! it alone had, because this is impossible later (counterexample 41). Then the set removes it. Removals come before additions, because a new
//! member may never be reachable.

#[cfg(test)]
mod sequences;

use std::sync::Arc;
use std::time::Duration;

use peer::Lane;
use peer::set::{Member, MemberList};
use vfs::ReplicaSlot;
use view::{Decision, DecisionKind, Kind, Outcome, SettledBy, ViewState};

use crate::driver::local_replica::LocalReplica;
use crate::membership::losses;
use crate::membership::views::exclude::REMOVED;
use crate::state::settings::Durability;
use crate::state::time::unix_seconds;

/// A decision that takes longer is requested again.
const LIMIT: Duration = Duration::from_secs(40);

/// Whether the signed list of members agrees with a change of the configuration. The leader checks this before it proposes a change, so that no
/// member can go beyond the authority.
///
/// # Errors
/// Why not, for people.
pub(crate) fn is_backed(list: &MemberList, decision: &Decision) -> Result<(), String> {
    match &decision.kind {
        DecisionKind::Configure { slot, kind } => {
            let member = list.member(slot.0).filter(|member| !member.revoked);
            let is_of_kind = |member: &Member| kind_of(member) == *kind;
            match member.is_some_and(is_of_kind) {
                true => Ok(()),
                false => Err(format!(
                    "the signed list of members, as the leader knows it, has no such replica {}",
                    slot.0
                )),
            }
        }
        DecisionKind::Remove { slot } => match list.member(slot.0) {
            Some(member) if member.revoked => Ok(()),
            _ => Err(format!(
                "the signed list of members, as the leader knows it, does not remove replica {}",
                slot.0
            )),
        },
        _ => Ok(()),
    }
}

fn kind_of(member: &Member) -> Kind {
    match member.witness {
        true => Kind::Witness,
        false => Kind::Data,
    }
}

/// Tells the set's files when their list of members is the newest that a majority knows: a majority of the configured replicas has greeted since
/// the start. Until then this replica admits no server that joins.
pub(crate) fn note_current(replica: &LocalReplica) {
    if replica.set.is_current() {
        return;
    }
    let view = replica.lease.view();
    let has_shown =
        |slot: &&ReplicaSlot| **slot == replica.slot() || replica.state.members.has_greeted(**slot);
    let heard = view.configured.iter().filter(has_shown).count();
    if view.epoch.0 > 0 && heard > view.configured.len() / 2 {
        replica.set.note_current();
    }
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The configuration changes.
    Change(Decision),
    /// A member to be removed leaves the view.
    Exclude(ReplicaSlot),
    /// The set settles that a member to be removed has nothing left.
    Settle(ReplicaSlot),
}

/// Lets the set agree on the next change of members, if this replica keeps the authority. A witness cannot tell whether contents are at stake.
/// If it keeps the authority, the first member with contents settles that.
pub(crate) async fn configure(replica: &Arc<LocalReplica>) {
    let Some(views) = replica.views.get() else {
        return;
    };
    let state = views.state().borrow().clone();
    let keeps_authority = replica.set.keeps_authority();
    let settles = !replica.state.is_witness && (keeps_authority || settles_for_witness(replica));
    if !(keeps_authority || settles) || !replica.lease.may_answer() {
        return;
    }
    let leaves_something = |slot| leaves_something(replica, slot);
    let is_there = |slot| replica.state.outbound.is_connected(slot, Lane::Control);
    let step = next(
        &replica.state.members.list(),
        &state,
        (replica.slot(), unix_seconds()),
        leaves_something,
        is_there,
    );
    match step {
        Some(Step::Settle(slot)) if settles => settle(replica, slot).await,
        Some(Step::Exclude(slot)) if keeps_authority => {
            replica.exclude(slot, REMOVED).await;
        }
        Some(Step::Change(decision)) if keeps_authority && is_steady(replica) => {
            change(replica, views, decision).await;
        }
        Some(_) | None => {}
    }
}

/// Whether a witness keeps the authority, and this replica settles in its place.
fn settles_for_witness(replica: &LocalReplica) -> bool {
    let list = replica.state.members.list();
    list.is_witness(list.keeper) && losses::is_first(replica)
}

async fn change(replica: &LocalReplica, views: &view::Views, decision: Decision) {
    match tokio::time::timeout(LIMIT, views.decide(decision)).await {
        Ok(Ok(Outcome::Applied)) => tracing::info!("the configuration has changed"),
        Ok(Ok(Outcome::Refused(why))) => tell(replica, &why, "the configuration stays as it is"),
        Ok(Err(error)) => tell(
            replica,
            &error.to_string(),
            "the configuration is not decided",
        ),
        Err(_) => tell(
            replica,
            "no answer",
            "the configuration is not decided in time",
        ),
    }
}

/// It is tried again every second.
fn tell(replica: &LocalReplica, why: &str, what: &'static str) {
    if let Some(sum) = replica.state.repeats.is_to_tell(what, replica.slot()) {
        tracing::warn!(why, %sum, "{what}");
    }
}

/// As far as is known, the lost replica alone has nothing, so no administrator is asked.
async fn settle(replica: &Arc<LocalReplica>, slot: ReplicaSlot) {
    if losses::waits_for(replica, slot).is_some() {
        return;
    }
    let by = SettledBy::Administrator {
        reason: REMOVED.to_owned(),
    };
    if let Err(why) = losses::close_everywhere(replica, slot).await {
        return tracing::debug!(why, "a loss is not settled");
    }
    match losses::settle(replica, slot, by).await {
        Ok(()) => tracing::info!(
            replica = slot.0,
            "nothing is left of a replica that is removed"
        ),
        Err(why) => tracing::warn!(why, "a loss is not settled"),
    }
}

/// Whether a lost replica alone may have something. If so, its removal waits until it is back in the view, taken over, or given up by an
/// administrator.
pub(crate) fn leaves_something(replica: &LocalReplica, slot: ReplicaSlot) -> bool {
    let frozen = replica.engine.may_have_frozen(slot);
    frozen || !losses::at_stake(replica, slot).is_empty()
}

/// Whether all active members report that the others know their controls and have their updates of earlier configurations.
fn is_steady(replica: &LocalReplica) -> bool {
    let view = replica.lease.view();
    let news = replica.state.peers.news();
    let mut others = view.active.iter().filter(|slot| **slot != replica.slot());
    let fresh = replica.state.settings.site_lease;
    let contents = replica.state.settings.durability == Durability::Majority;
    replica.engine.is_steady(contents)
        && others.all(|slot| {
            let said = news.get(slot).and_then(|news| news.said.as_ref());
            said.is_some_and(|(request, at)| {
                request.steady && request.epoch == view.epoch.0 && at.elapsed() < fresh
            })
        })
}

fn next(
    list: &MemberList,
    state: &ViewState,
    (by, at_unix_s): (ReplicaSlot, u64),
    leaves_something: impl Fn(ReplicaSlot) -> bool,
    is_there: impl Fn(ReplicaSlot) -> bool,
) -> Option<Step> {
    let members = || list.members.iter();
    let configured = |slot: &ReplicaSlot| state.members.contains_key(slot);
    let to_go = members().filter(|member| member.revoked);
    let mut to_go = to_go
        .map(|member| ReplicaSlot(member.slot))
        .filter(configured);
    let goes =
        to_go.find_map(|slot| towards_removal(state, slot, (by, at_unix_s), &leaves_something));
    let comes = || {
        let to_come = || {
            members()
                .filter(|member| !member.revoked && !configured(&ReplicaSlot(member.slot)))
                .filter(|member| !state.removed.contains(&ReplicaSlot(member.slot)))
        };
        // A new member that does not answer delays no later one, whether it is configured or not.
        let present = to_come().find(|member| is_there(ReplicaSlot(member.slot)));
        if let Some(slot) = state.newcomer() {
            let is_in_the_way = present.is_some() && !is_there(slot);
            return is_in_the_way.then_some(Step::Change(Decision {
                by,
                at_unix_s,
                seen_epoch: state.epoch,
                kind: DecisionKind::Withdraw { slot },
            }));
        }
        let member = present.or_else(|| to_come().next())?;
        Some(Step::Change(Decision {
            by,
            at_unix_s,
            seen_epoch: state.epoch,
            kind: DecisionKind::Configure {
                slot: ReplicaSlot(member.slot),
                kind: kind_of(member),
            },
        }))
    };
    goes.or_else(comes)
}

/// The next possible step to remove a member.
fn towards_removal(
    state: &ViewState,
    slot: ReplicaSlot,
    (by, at_unix_s): (ReplicaSlot, u64),
    leaves_something: impl Fn(ReplicaSlot) -> bool,
) -> Option<Step> {
    let decision = |kind| Decision {
        by,
        at_unix_s,
        seen_epoch: state.epoch,
        kind,
    };
    let holds = |decision: &Decision| state.clone().decide(decision) == Outcome::Applied;
    let part = decision(DecisionKind::Exclude {
        slot,
        reason: REMOVED.to_owned(),
    });
    // Before the removal: while the member is active, that would wait for its reports, but no replica accepts them any more.
    if holds(&part) {
        return Some(Step::Exclude(slot));
    }
    let remove = decision(DecisionKind::Remove { slot });
    if holds(&remove) {
        return Some(Step::Change(remove));
    }
    let is_open = state.losses.contains_key(&slot) && !state.is_settled(slot);
    (is_open && !leaves_something(slot)).then_some(Step::Settle(slot))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use view::Settlement;

    use super::*;

    const FOUNDER: ReplicaSlot = ReplicaSlot(1);

    fn member(slot: u16, revoked: bool) -> Member {
        Member {
            slot,
            addresses: Vec::new(),
            client_addresses: Vec::new(),
            revoked,
            witness: false,
            metadata_server: false,
            name: String::new(),
        }
    }

    /// A set whose members have come one after the other.
    fn set(size: u16) -> ViewState {
        let mut state = ViewState {
            epoch: 1,
            ..ViewState::default()
        };
        let founder = view::MemberState {
            kind: Kind::Data,
            active: true,
            since_epoch: 1,
            incarnation: 1,
            was_active: true,
            excluded: None,
        };
        state.members = BTreeMap::from([(FOUNDER, founder)]);
        for slot in (2..=size).map(ReplicaSlot) {
            let configure = Decision {
                by: FOUNDER,
                at_unix_s: 0,
                seen_epoch: 0,
                kind: DecisionKind::Configure {
                    slot,
                    kind: Kind::Data,
                },
            };
            hold(&mut state, &configure);
            let seen_epoch = state.epoch;
            let admit = Decision {
                by: slot,
                at_unix_s: 0,
                seen_epoch,
                kind: DecisionKind::Admit {
                    slot,
                    incarnation: 1,
                },
            };
            hold(&mut state, &admit);
        }
        state
    }

    fn hold(state: &mut ViewState, decision: &Decision) {
        assert_eq!(state.decide(decision), Outcome::Applied, "{decision:?}");
    }

    fn after(list: &[Member], state: &ViewState, leaves_something: bool) -> Option<Step> {
        let list = MemberList {
            members: list.to_vec(),
            ..MemberList::default()
        };
        next(&list, state, (FOUNDER, 0), |_| leaves_something, |_| true)
    }

    /// A replica had joined and was never started: no later replica was configured.
    #[test]
    fn one_that_is_absent_holds_up_nobody_who_comes_later() {
        let list = MemberList {
            members: vec![member(1, false), member(2, false), member(3, false)],
            ..MemberList::default()
        };
        let state = set(1);
        let comes = |is_there: fn(ReplicaSlot) -> bool| {
            let step = next(&list, &state, (FOUNDER, 0), |_| false, is_there);
            match step {
                Some(Step::Change(Decision {
                    kind: DecisionKind::Configure { slot, .. },
                    ..
                })) => slot.0,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(comes(|slot| slot.0 == 3), 3);
        assert_eq!(comes(|_| true), 2);
        // The leader may reach it even if we do not.
        assert_eq!(comes(|_| false), 2);
    }

    /// A newcomer was configured and died before it was admitted: no later replica was configured.
    #[test]
    fn a_newcomer_that_died_holds_up_nobody_who_comes_later() {
        let list = MemberList {
            members: [1, 2, 3].map(|slot| member(slot, false)).to_vec(),
            ..MemberList::default()
        };
        let mut state = set(1);
        let step = |state: &ViewState, there: &[u16]| {
            let is_there = |slot: ReplicaSlot| there.contains(&slot.0);
            next(&list, state, (FOUNDER, 0), |_| false, is_there)
        };
        let configures = |state: &mut ViewState, there: &[u16], expected: u16| {
            let Some(Step::Change(
                decision @ Decision {
                    kind: DecisionKind::Configure { slot, .. },
                    ..
                },
            )) = step(state, there)
            else {
                panic!("nobody is configured");
            };
            assert_eq!(slot.0, expected);
            hold(state, &decision);
        };
        configures(&mut state, &[2], 2);
        assert_eq!(step(&state, &[2, 3]), None, "it is on its way");
        assert_eq!(step(&state, &[]), None, "nobody else is there");
        let Some(Step::Change(
            withdraw @ Decision {
                kind: DecisionKind::Withdraw { .. },
                ..
            },
        )) = step(&state, &[3])
        else {
            panic!("it stays in the way");
        };
        hold(&mut state, &withdraw);
        configures(&mut state, &[3], 3);
        let seen_epoch = state.epoch;
        let (slot, incarnation, at_unix_s) = (ReplicaSlot(3), 1, 0);
        let admit = Decision {
            by: slot,
            at_unix_s,
            seen_epoch,
            kind: DecisionKind::Admit { slot, incarnation },
        };
        hold(&mut state, &admit);
        configures(&mut state, &[2, 3], 2);
    }

    fn settle(state: &mut ViewState, slot: ReplicaSlot) {
        let settlement = Settlement {
            through: 7,
            incarnation_below: 2,
            names: None,
            by: SettledBy::Takeover,
            at_unix_s: 0,
            id: 0,
        };
        let seen_epoch = state.epoch;
        let settle = Decision {
            by: FOUNDER,
            at_unix_s: 0,
            seen_epoch,
            kind: DecisionKind::Settle { slot, settlement },
        };
        hold(state, &settle);
    }

    #[test]
    fn who_is_to_go_leaves_is_settled_and_is_removed() {
        let (mut state, third) = (set(3), ReplicaSlot(3));
        let list = [member(1, false), member(2, false), member(3, true)];
        assert_eq!(after(&list, &state, true), Some(Step::Exclude(third)));
        let exclude = Decision {
            by: FOUNDER,
            at_unix_s: 0,
            seen_epoch: state.epoch,
            kind: DecisionKind::Exclude {
                slot: third,
                reason: String::new(),
            },
        };
        hold(&mut state, &exclude);
        assert_eq!(after(&list, &state, true), None, "somebody has to say so");
        assert_eq!(after(&list, &state, false), Some(Step::Settle(third)));
        settle(&mut state, third);
        let Some(Step::Change(remove)) = after(&list, &state, true) else {
            panic!("it can be removed");
        };
        hold(&mut state, &remove);
        assert!(state.is_gone(third));
        assert_eq!(after(&list, &state, false), None);
    }

    /// It was to be removed in one step, which waits until all active members report that they know everything. But no replica listens to a
    /// member to be removed.
    #[test]
    fn one_of_two_with_a_witness_leaves_the_view_before_it_is_removed() {
        let mut state = set(3);
        let witness = state.members.get_mut(&ReplicaSlot(3)).unwrap();
        witness.kind = Kind::Witness;
        let list = [1, 2, 3].map(|slot| Member {
            witness: slot == 3,
            ..member(slot, slot == 2)
        });
        let second = ReplicaSlot(2);
        assert_eq!(after(&list, &state, true), Some(Step::Exclude(second)));
    }

    #[test]
    fn the_second_of_two_is_removed_in_one_step() {
        let list = [member(1, false), member(2, true)];
        let step = after(&list, &set(2), true);
        assert!(matches!(
            step,
            Some(Step::Change(Decision {
                kind: DecisionKind::Remove { .. },
                ..
            }))
        ));
    }

    /// Of four replicas one is lost; another one is to be removed as well, and cannot leave before.
    #[test]
    fn one_that_waits_holds_up_no_other() {
        let mut state = set(4);
        let fourth = ReplicaSlot(4);
        let exclude = Decision {
            by: FOUNDER,
            at_unix_s: 0,
            seen_epoch: state.epoch,
            kind: DecisionKind::Exclude {
                slot: fourth,
                reason: String::new(),
            },
        };
        hold(&mut state, &exclude);
        let list = [1, 2, 3, 4].map(|slot| member(slot, slot > 2));
        assert_eq!(after(&list, &state, false), Some(Step::Settle(fourth)));
    }

    #[test]
    fn who_is_to_come_waits_for_those_who_are_to_go_and_is_never_one_of_them() {
        let mut state = set(3);
        let list = [
            member(1, false),
            member(2, false),
            member(3, true),
            member(4, false),
        ];
        let third = ReplicaSlot(3);
        assert_eq!(after(&list, &state, false), Some(Step::Exclude(third)));
        state.removed.insert(ReplicaSlot(4));
        let list = [1, 2, 3, 4].map(|slot| member(slot, false));
        assert_eq!(after(&list, &state, false), None);
    }
}
