//! Excluding silent members from the view.
//!
//! A majority excludes a member that does not answer; without a majority all are cut off. If too few members would be left, a replica outside
//! replaces the silent member in the same step. It must have everything that the remaining members have. Together they then know every control
//! that the silent members may hold, because the replica from outside remembers what it acknowledged. They also have every update that a
//! majority had to hold.
//!
//! What must never enter: how a replica outside finds out that it could take part; that is `rejoin`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use vfs::ReplicaSlot;
use view::{DecisionKind, ViewState};

use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{UNCHANGED, next_look};
use crate::state::wire::LeaseRequest;

/// Why a member is excluded, for people.
const SILENT: &str = "it does not answer";
/// The same for a member to be removed; also why what it alone had is given up.
pub(super) const REMOVED: &str = "it is removed from the set";
const NONSENSE: &str = "it sent what makes no sense: ";

/// Shortest time between checks for silent members.
const LOOK: Duration = Duration::from_millis(200);

/// Excludes silent members until this replica stops.
pub(crate) async fn watch(replica: Arc<LocalReplica>) {
    let mut last = Instant::now();
    loop {
        let latest = next_suspicion(&replica);
        next_look(&replica, LOOK, latest).await;
        if last.elapsed() > latest + 3 * LOOK {
            // This process was stopped for a while; the answers of that time are not read yet.
            replica.state.peers.forget_silence();
        }
        exclude_silent(&replica).await;
        last = Instant::now();
    }
}

/// The time until the next member could be found silent, or until the next regular check.
fn next_suspicion(replica: &LocalReplica) -> Duration {
    let limit = replica.state.settings.suspicion;
    let heard = replica.state.peers.news();
    let heard = heard.values().map(|news| news.heard.elapsed());
    let silence = heard.filter(|silence| *silence <= limit).max();
    let latest = (limit - silence.unwrap_or_default()).min(limit / 2);
    latest.clamp(LOOK, UNCHANGED)
}

/// Proposes to exclude a silent member, or to replace all silent members.
async fn exclude_silent(replica: &Arc<LocalReplica>) {
    let out = replica.silent();
    // A removed member goes first: it never comes back, and a returning replica may need its place.
    let first = out
        .iter()
        .find(|slot| replica.state.members.was_removed(**slot));
    // A member that the set cannot do without delays no other.
    let spared = || out.iter().find(|slot| replica.can_do_without(**slot));
    let Some(first) = first.or_else(spared).or(out.first()) else {
        return exclude_slow(replica).await;
    };
    let Some(state) = replica.view_state() else {
        return;
    };
    let enough_are_left = state.active().count() > state.majority();
    let admitted = match enough_are_left {
        true => BTreeMap::new(),
        false => who_takes_their_places(replica, &state, &out),
    };
    if admitted.is_empty() {
        let reason = reason_for(replica, *first);
        return replica.exclude(*first, &reason).await;
    }
    let reason = reason_for_all(replica, &out);
    let decision = replica.decision(DecisionKind::Replace {
        out: out.clone(),
        admitted: admitted.clone(),
        reason: reason.clone(),
    });
    if replica.decide(decision).await {
        let (out, admitted) = (listed(&out), listed(admitted.keys()));
        tracing::warn!(out, admitted, reason, "others take the places of replicas");
    }
}

/// Why a member is excluded, for people.
fn reason_for(replica: &LocalReplica, slot: ReplicaSlot) -> String {
    if replica.state.members.was_removed(slot) {
        return REMOVED.to_owned();
    }
    let nonsense = replica.state.peers.with(slot, |peer| peer.nonsense.told());
    nonsense.map_or(SILENT.to_owned(), |what| format!("{NONSENSE}{what}"))
}

/// Why several members are excluded together.
fn reason_for_all(replica: &LocalReplica, out: &BTreeSet<ReplicaSlot>) -> String {
    let reasons = out.iter().map(|slot| (*slot, reason_for(replica, *slot)));
    let reasons: Vec<(ReplicaSlot, String)> = reasons.collect();
    match &reasons[..] {
        [(_, first), rest @ ..] if rest.iter().all(|(_, reason)| reason == first) => first.clone(),
        _ => {
            let each = reasons.iter();
            let each = each.map(|(slot, reason)| format!("of replica {}, {reason}", slot.0));
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Proposes to exclude a member that answers but falls further behind.
async fn exclude_slow(replica: &Arc<LocalReplica>) {
    if let Some(lag) = replica.too_slow() {
        replica.exclude(lag.slot, &lag.reason()).await;
    }
}

/// Replicas outside the view that could replace the silent members, with their incarnations. Empty if they are too few.
///
/// All remaining members must have complete copies, although the silent members may not have reported in this view yet. A replica that comes
/// must have as much of the streams of the silent members as any remaining member.
fn who_takes_their_places(
    replica: &LocalReplica,
    state: &ViewState,
    out: &BTreeSet<ReplicaSlot>,
) -> BTreeMap<ReplicaSlot, u64> {
    let view = replica.lease.view();
    let news = replica.state.peers.news();
    let fresh = |slot: &ReplicaSlot| {
        let (request, at) = news.get(slot)?.said.as_ref()?;
        let counts =
            request.epoch == view.epoch.0 && at.elapsed() < replica.state.settings.suspicion;
        counts.then_some(request)
    };
    if !replica.is_complete() || state.epoch != view.epoch.0 {
        return BTreeMap::new();
    }
    let mut has = places(out, |lost| replica.state.inboxes.acknowledged(lost));
    let left = view.active.difference(out);
    for slot in left.clone().filter(|slot| **slot != replica.slot()) {
        let Some(request) = fresh(slot).filter(|request| request.complete) else {
            return BTreeMap::new();
        };
        if !state.holds_data(*slot) {
            // What only a witness has received does not count as held.
            continue;
        }
        for (lost, position) in places(out, |lost| applied_there(request, lost)) {
            let most = has.entry(lost).or_default();
            *most = position.max(*most);
        }
    }
    let outside = state.members.keys().filter(|slot| !state.is_active(**slot));
    let fit = outside.filter_map(|slot| {
        let request = fresh(slot).filter(|request| is_fit(request, out, &has))?;
        state
            .voters()
            .contains(slot)
            .then_some((*slot, request.incarnation))
    });
    let fit: BTreeMap<ReplicaSlot, u64> = fit.collect();
    let enough = left.count() + fit.len() >= state.majority();
    match enough {
        true => fit,
        false => BTreeMap::new(),
    }
}

/// Whether the replica outside that sent this report has everything that the remaining members have.
fn is_fit(
    request: &LeaseRequest,
    out: &BTreeSet<ReplicaSlot>,
    has: &BTreeMap<ReplicaSlot, u64>,
) -> bool {
    let mut without = request.fit_without.iter();
    let level_with_the_rest =
        !request.fit_without.is_empty() && without.all(|slot| out.contains(&ReplicaSlot(*slot)));
    let mut has = has.iter();
    level_with_the_rest && has.all(|(lost, position)| applied_there(request, *lost) >= *position)
}

/// How far each of these streams is applied.
fn places(
    of: &BTreeSet<ReplicaSlot>,
    applied: impl Fn(ReplicaSlot) -> u64,
) -> BTreeMap<ReplicaSlot, u64> {
    of.iter().map(|slot| (*slot, applied(*slot))).collect()
}

/// How far the sender says that it has applied a stream.
fn applied_there(request: &LeaseRequest, of: ReplicaSlot) -> u64 {
    let mut applied = request.applied.iter();
    let found = applied.find(|(slot, _)| *slot == of.0);
    found.map_or(0, |(_, position)| *position)
}

fn listed<'a>(slots: impl IntoIterator<Item = &'a ReplicaSlot>) -> String {
    let slots = slots.into_iter().map(|slot| slot.0.to_string());
    slots.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: ReplicaSlot = ReplicaSlot(3);
    const D: ReplicaSlot = ReplicaSlot(4);

    fn says(fit_without: &[u16], applied: &[(u16, u64)]) -> LeaseRequest {
        LeaseRequest {
            fit_without: fit_without.to_vec(),
            applied: applied.to_vec(),
            ..LeaseRequest::default()
        }
    }

    #[test]
    fn a_replica_that_comes_has_as_much_of_the_silent_as_those_who_are_left() {
        let (out, has) = (BTreeSet::from([C]), BTreeMap::from([(C, 7)]));
        assert!(is_fit(&says(&[3], &[(3, 7)]), &out, &has));
        assert!(is_fit(&says(&[3], &[(3, 8)]), &out, &has));
        assert!(!is_fit(&says(&[3], &[(3, 6)]), &out, &has));
        assert!(!is_fit(&says(&[3], &[(2, 9)]), &out, &has));
    }

    #[test]
    fn a_replica_that_lacks_something_of_one_who_stays_does_not_come() {
        let (out, has) = (BTreeSet::from([C]), BTreeMap::from([(C, 7)]));
        assert!(!is_fit(&says(&[], &[(3, 7)]), &out, &has));
        assert!(!is_fit(&says(&[3, 4], &[(3, 7)]), &out, &has));
        let both = BTreeSet::from([C, D]);
        assert!(is_fit(&says(&[3], &[(3, 7)]), &both, &has));
    }
}
