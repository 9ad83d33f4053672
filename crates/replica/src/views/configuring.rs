//! From the list of members, which the authority signs, to the configuration that the set agrees on.
//!
//! One member at a time, and only when all who take part know every control, and have every update, of earlier
//! configurations: otherwise majorities of two configurations might not meet (rule 31).

use std::sync::Arc;
use std::time::Duration;

use peer::set::{Member, MemberList};
use vfs::ReplicaSlot;
use view::{Decision, Kind, Outcome, ViewState};

use super::{promises, unix_seconds};
use crate::shared::Shared;

/// A decision that takes longer is asked for again.
const LIMIT: Duration = Duration::from_secs(40);

/// Whether the signed list of members says what a change of the configuration says. The leader asks before it proposes
/// one, so that no member can bring about what the authority did not.
///
/// # Errors
/// Why not, for people.
pub(crate) fn is_backed(list: &MemberList, decision: &Decision) -> Result<(), String> {
    match decision {
        Decision::Configure { slot, kind, .. } => {
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
        Decision::Remove { slot, .. } => match list.member(slot.0) {
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

/// Tells the set's files, once it is so, that the list of members there is the newest that a majority of the set knows:
/// as many of those who count have shown theirs since this replica started. Before that nobody is admitted here.
pub(crate) fn note_current(shared: &Shared) {
    if shared.set.is_current() {
        return;
    }
    let view = shared.standing.view();
    let has_shown = |slot: &&ReplicaSlot| **slot == shared.slot() || shared.has_greeted(**slot);
    let heard = view.configured.iter().filter(has_shown).count();
    if view.epoch.0 > 0 && heard > view.configured.len() / 2 {
        shared.set.note_current();
    }
}

/// Has the set agree on the next member that has come or gone, if this replica keeps the authority.
pub(crate) async fn configure(shared: &Arc<Shared>) {
    let Some(views) = shared.views.get() else {
        return;
    };
    let state = views.state().borrow().clone();
    if !shared.set.keeps_authority() || !shared.standing.may_answer() || !is_steady(shared) {
        return;
    }
    let Some(decision) = next(shared, &state) else {
        return;
    };
    match tokio::time::timeout(LIMIT, views.decide(decision)).await {
        Ok(Ok(Outcome::Applied)) => tracing::info!("the configuration has changed"),
        Ok(Ok(Outcome::Refused(why))) => tracing::warn!(why, "the configuration stays as it is"),
        Ok(Err(error)) => tracing::warn!(%error, "the configuration is not decided"),
        Err(_) => tracing::warn!("the configuration is not decided in time"),
    }
}

/// Whether all who take part say that everybody knows their controls and has their updates of earlier configurations.
fn is_steady(shared: &Shared) -> bool {
    let view = shared.standing.view();
    let news = shared.news();
    let mut others = view.active.iter().filter(|slot| **slot != shared.slot());
    let fresh = shared.settings.site_lease;
    shared.engine.turn(|turn| promises::is_steady(shared, turn))
        && others.all(|slot| {
            let said = news.get(slot).and_then(|news| news.said.as_ref());
            said.is_some_and(|(ask, at)| {
                ask.steady && ask.epoch == view.epoch.0 && at.elapsed() < fresh
            })
        })
}

fn next(shared: &Shared, state: &ViewState) -> Option<Decision> {
    let (by, at_unix_s) = (shared.slot(), unix_seconds());
    let list = shared.member_list();
    list.members.iter().find_map(|member| {
        let slot = ReplicaSlot(member.slot);
        match (state.members.contains_key(&slot), member.revoked) {
            (true, true) => Some(Decision::Remove {
                slot,
                by,
                at_unix_s,
            }),
            (false, false) if state.newcomer().is_none() => Some(Decision::Configure {
                slot,
                kind: kind_of(member),
                by,
                at_unix_s,
            }),
            _ => None,
        }
    })
}
