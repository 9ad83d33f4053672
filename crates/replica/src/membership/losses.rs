//! What becomes of a lost replica's objects: who has how much of what it made, and when its controls end.
//!
//! Before anybody goes on with a lost replica's objects, all who are left bring each other to the
//! same state (rule 32): `relay` carries updates that only some have received, `contents` carries
//! file contents from the replica that has the most (`state::losses`); a witness that cannot pass
//! on what it alone has heard gives it up (`witnessed`). Then its controls may end: because a
//! majority held everything it had answered (`takeover`), or because an administrator says so;
//! files that came only in part get a version of their own (`adopting`).
//!
//! What must never enter: who is lost (`views`), and the rules of replication control.

mod adopting;
mod applied;
mod closing;
mod contents;
#[cfg(test)]
mod counterexamples;
mod relay;
mod takeover;
mod witnessed;

pub(crate) use closing::{close_everywhere, closed_here, heard};
pub(crate) use contents::{at_stake, completed, incomplete};
pub(crate) use relay::relayed;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use control::{Incarnation, Moment};
use tokio::time::Instant;
use vfs::ReplicaSlot;
use view::{DecisionKind, Outcome, SettledBy, Settlement, ViewState};

use applied::applied_by_others;

use crate::driver::clock::lease_time;
use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{UNCHANGED, next_look};
use crate::membership::views;
use crate::state::relays;
use crate::state::time::unix_seconds;
use crate::state::wire::LeaseRequest;

/// How often to look at most.
const PAUSE: Duration = Duration::from_millis(200);

/// Controls end that all have agreed to end.
pub(crate) async fn apply_settlements(replica: &Arc<LocalReplica>, state: &ViewState) {
    for (slot, end) in state.settled_streams() {
        if !replica.state.losses.settles_now(end.settlement) {
            continue;
        }
        if slot != replica.slot()
            && let Err(error) = replica.store.abandon(slot, end.settlement).await
        {
            // The store has failed, which ends the server.
            return tracing::error!(%error, "what a lost replica had sent in part cannot be given up");
        }
        tracing::warn!(
            replica = slot.0,
            settlement = end.settlement,
            "a lost replica's controls end"
        );
    }
    end_controls(replica, state);
    if let Err(error) = views::go_through(replica, state).await {
        // The store has failed, which ends the server.
        tracing::error!(%error, "settlements cannot be noted");
    }
}

/// Of one that comes back those controls end that it may have had; of one that is gone all do, at everybody who hears of
/// it now or later.
fn end_controls(replica: &LocalReplica, state: &ViewState) {
    let settled = state.losses.iter().flat_map(|(slot, loss)| {
        let below = loss.settled.iter().map(|one| one.incarnation_below);
        below.max().map(|below| (*slot, Incarnation(below)))
    });
    let gone = state.stream_ends.keys();
    let gone = gone.map(|slot| (*slot, Incarnation(u64::MAX)));
    for (slot, below) in settled.chain(gone) {
        replica.engine.end_controls(slot, below);
    }
}

/// Others take part than before: whatever was found out counts no more.
pub(crate) fn view_changed(replica: &Arc<LocalReplica>) {
    replica.state.losses.equalling().clear();
    replica.state.losses.closing.end_all();
    replica.engine.notify();
}

/// What is told of once, with sums later.
const COPY_NEEDED: &str = "a whole copy is needed";

/// How long something has been missing, while nothing of it came.
#[derive(Debug, Default)]
struct Missing {
    lost: Option<(ReplicaSlot, u64)>,
    since: Option<Instant>,
}

impl Missing {
    /// Something of a lost stream, applied here so far, is missing or too much; nothing when all is as elsewhere. `true`: it has
    /// been so for long, and nothing came.
    fn look(&mut self, lost: Option<(ReplicaSlot, u64)>, now: Instant) -> bool {
        if lost != self.lost || lost.is_none() {
            self.lost = lost;
            self.since = lost.map(|_| now);
        }
        let since = self.since;
        since.is_some_and(|since| now.duration_since(since) > RELAY_PATIENCE)
    }
}

/// What nobody relays for so long nobody has kept. What was lost on its way comes again twice before.
const RELAY_PATIENCE: Duration = Duration::from_secs(15);
const _: () = assert!(RELAY_PATIENCE.as_millis() >= 3 * relays::AGAIN.as_millis());

/// Looks after lost replicas' objects until the replica stops.
pub(crate) async fn attend(replica: Arc<LocalReplica>) {
    let mut missing = Missing::default();
    let mut adoption = adopting::Adoption::default();
    loop {
        next_look(&replica, PAUSE, UNCHANGED).await;
        relay::forget_what_all_have(&replica);
        relay::relay_to_rejoining(&replica);
        let lacking = lacking_of_lost(&replica, &views::absent(&replica));
        let lacking = lacking.map(|lost| (lost, "lacks"));
        let differing = match replica.state.is_witness {
            true => lacking.or_else(|| Some((witnessed::beyond_all(&replica)?, "alone has"))),
            false => lacking,
        };
        let place = differing.map(|(lost, _)| (lost, replica.state.inboxes.acknowledged(lost)));
        if let (true, Some((lost, how))) = (missing.look(place, Instant::now()), differing) {
            missing = Missing::default();
            take_copy(&replica, lost, how).await;
        }
        if !replica.state.is_witness {
            adoption.go_on(&replica).await;
        }
        for slot in replica.lost() {
            relay::relay(&replica, slot).await;
            if !replica.state.is_witness {
                contents::equal(&replica, slot).await;
                takeover::take_over(&replica, slot).await;
            }
        }
    }
}

/// This replica has other updates of a lost one than the rest, and nobody can change that; it needs another's
/// copy.
async fn take_copy(replica: &Arc<LocalReplica>, lost: ReplicaSlot, how: &str) {
    let place = lost.0;
    let reason = format!("it {how} updates of replica {place}, which is lost");
    if let Some(sum) = replica.state.repeats.is_to_tell(COPY_NEEDED, lost) {
        tracing::warn!(reason, %sum, "a whole copy is needed");
    }
    if replica.takes_part() {
        replica.exclude(replica.slot(), &reason).await;
        if replica.state.is_witness {
            // It has nothing to deliver before.
            return witnessed::begin_anew(replica, &reason).await;
        }
        if replica.lease.is_up_to_date() {
            // Too few may be left without it. As a new incarnation it answers nobody before it has the copy.
            if let Err(error) = replica.forget_complete().await {
                // The store has failed, which ends the server.
                tracing::error!(%error, "that the copy is not complete cannot be noted");
            }
            return replica.lease.leave(&reason);
        }
    }
    replica.state.needs_copy.store(true, Ordering::Release);
}

/// The others who take part.
fn others(replica: &LocalReplica) -> Vec<ReplicaSlot> {
    let mut others = replica.lease.view().active;
    others.remove(&replica.slot());
    others.into_iter().collect()
}

/// Whether this replica is the first of those who take part and hold contents: what one has to do, it does.
pub(crate) fn is_first(replica: &LocalReplica) -> bool {
    let own = replica.slot();
    replica.holders().into_iter().all(|slot| slot > own)
}

/// The members of the view that take part since later than a lost one did.
fn late(replica: &LocalReplica, lost: ReplicaSlot) -> BTreeSet<ReplicaSlot> {
    let state = replica.view_state();
    let gone = state
        .as_ref()
        .and_then(|state| state.members.get(&lost))
        .map_or(u64::MAX, |member| member.since_epoch);
    let since = replica.lease.view().since;
    let late = since.into_iter().filter(|(_, since)| since.0 >= gone);
    late.map(|(slot, _)| slot).collect()
}

/// A replica out of the view, or absent from it, of whose stream this one lacks what somebody in the view holds. What
/// only a witness has heard of, nobody holds.
pub(crate) fn lacking_of_lost(
    replica: &LocalReplica,
    absent: &BTreeSet<ReplicaSlot>,
) -> Option<ReplicaSlot> {
    let view = replica.lease.view();
    let witnesses = replica.engine.witnesses();
    let news = replica.state.peers.news();
    let others = replica.state.inboxes.followed().into_iter();
    let gone = |slot: &ReplicaSlot| !view.active.contains(slot) || absent.contains(slot);
    let mut lost = others.filter(gone);
    lost.find(|lost| {
        let here = replica.state.inboxes.acknowledged(*lost);
        let said = view
            .active
            .difference(&witnesses)
            .filter_map(|slot| news.get(slot)?.said.as_ref());
        let applied = said.flat_map(|(ask, _)| &ask.applied);
        let mut applied = applied.filter(|(of, _)| *of == lost.0);
        applied.any(|(_, applied)| *applied > here)
    })
}

/// Replicas out of contact of whose contents something is missing here: nobody but another one that has it can send it.
pub(crate) fn lacks_here(replica: &LocalReplica) -> Vec<u16> {
    let others = replica.state.inboxes.followed().into_iter();
    let away = others.filter(|slot| !replica.state.outbound.is_in_session(*slot));
    away.filter(|slot| lacks_contents(replica, *slot))
        .map(|slot| slot.0)
        .collect()
}

fn lacks_contents(replica: &LocalReplica, of: ReplicaSlot) -> bool {
    // A store that has failed ends the server elsewhere.
    let lacking = replica.store.incomplete_files(of);
    lacking.is_ok_and(|files| !files.is_empty())
}

/// Whether others in the view hold contents, and of each replica outside it one of them has all updates that are here, and their contents,
/// but for those of which it was decided to go on without them.
pub(crate) fn others_have_all(replica: &LocalReplica) -> bool {
    let survivors = replica.holders();
    let news = replica.state.peers.news();
    let lacks = |by: &ReplicaSlot, of: ReplicaSlot| {
        let said = news.get(by).and_then(|news| news.said.as_ref());
        said.is_some_and(|(ask, _)| ask.lacks.contains(&of.0))
    };
    let view = replica.lease.view();
    let others = replica.state.inboxes.followed().into_iter();
    let mut gone = others.filter(|slot| !view.active.contains(slot) && !replica.is_given_up(*slot));
    let has_all = |lost| {
        let here = replica.state.inboxes.acknowledged(lost);
        let others = applied_by_others(replica, lost).unwrap_or_default();
        let whole = !lacks_contents(replica, lost);
        let with_contents = |slot: &&ReplicaSlot| !(whole && lacks(slot, lost));
        let having = survivors.iter().filter(with_contents);
        let mut applied = having.filter_map(|slot| others.get(slot));
        applied.any(|applied| *applied >= here)
    };
    !survivors.is_empty() && gone.all(has_all)
}

/// What is here of another replica's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Here {
    of: ReplicaSlot,
    applied: u64,
    /// With all contents.
    whole: bool,
}

/// What is here of all others, and since when, on the own clock of leases.
#[derive(Clone, Debug)]
pub(crate) struct Stood {
    since: Moment,
    here: Vec<Here>,
}

/// What is here of all others.
pub(crate) fn here(replica: &LocalReplica) -> Stood {
    let streams = replica.state.inboxes.followed().into_iter();
    let here = streams.map(|of| Here {
        of,
        applied: replica.state.inboxes.acknowledged(of),
        whole: !lacks_contents(replica, of),
    });
    let here = here.collect();
    // Whatever is here was changed before.
    let since = lease_time();
    Stood { since, here }
}

/// Whether of each of these streams, but for those that were given up, all in the view who hold contents and have said something
/// within such a time have as much.
pub(crate) fn present_have_all(replica: &LocalReplica, stood: &Stood, fresh: Duration) -> bool {
    let news = replica.state.peers.news();
    let epoch = replica.lease.view().epoch.0;
    let present = replica.holders().into_iter().filter_map(|slot| {
        let (ask, at) = news.get(&slot)?.said.as_ref()?;
        (at.elapsed() < fresh).then_some((slot, ask))
    });
    let present: Vec<(ReplicaSlot, &LeaseRequest)> = present.collect();
    let has_shipped = |slot: ReplicaSlot| {
        let shipped = news.get(&slot).and_then(|news| news.shipped);
        shipped.is_some_and(|(of, before)| of == epoch && before >= stood.since)
    };
    let here = stood.here.iter();
    let here = here.filter(|here| !replica.is_given_up(here.of));
    have_all(&present, has_shipped, here)
}

/// Whether all who say this have as much of each of these streams: the loss of the one that made it, or of any other, then takes
/// nothing away that counts because it is here. Of contents of one that is there it says itself whether it has shipped them to all.
fn have_all<'h>(
    present: &[(ReplicaSlot, &LeaseRequest)],
    has_shipped: impl Fn(ReplicaSlot) -> bool,
    mut here: impl Iterator<Item = &'h Here>,
) -> bool {
    let is_present = |slot| present.iter().any(|(by, _)| *by == slot);
    let has = |(by, ask): &(ReplicaSlot, &LeaseRequest), here: &Here| {
        let of = here.of.0;
        let mut applied = ask.applied.iter();
        let level = applied.any(|(slot, there)| *slot == of && *there >= here.applied);
        let lacks = here.whole
            && match is_present(here.of) {
                true => !has_shipped(here.of),
                false => ask.lacks.contains(&of),
            };
        *by == here.of || level && !lacks
    };
    !present.is_empty() && here.all(|here| present.iter().all(|one| has(one, here)))
}

/// Lost replicas whose streams are applied here so far, with all their contents.
pub(crate) fn whole_here(replica: &LocalReplica) -> Vec<(u16, u64)> {
    let equalling = replica.state.losses.equalling();
    let whole = equalling
        .iter()
        .filter(|(_, equalling)| equalling.is_whole());
    whole
        .map(|(slot, equalling)| (slot.0, equalling.applied()))
        .collect()
}

/// What is missing before a lost replica's controls can be ended, for people.
pub(crate) fn waits_for(replica: &LocalReplica, lost: ReplicaSlot) -> Option<String> {
    if !replica.engine.is_settled() {
        return Some("not every member of the view has reported".to_owned());
    }
    let whole = whole_here(replica);
    // A lost replica that is back in contact sends more: what was level before is not all of it.
    let place = replica.state.inboxes.acknowledged(lost);
    let here = whole.iter().find(|level| **level == (lost.0, place));
    let Some((_, through)) = here else {
        return Some("this server brings its copy level with the others'".to_owned());
    };
    let epoch = replica.lease.view().epoch.0;
    let news = replica.state.peers.news();
    let behind = replica.holders().into_iter().find(|slot| {
        let said = news.get(slot).and_then(|news| news.said.as_ref());
        !said.is_some_and(|(ask, _)| ask.epoch == epoch && ask.whole.contains(&(lost.0, *through)))
    });
    behind.map(|slot| format!("replica {} brings its copy level with the others'", slot.0))
}

/// Ends a lost replica's controls, once everybody has the same of it, and takes in nothing more.
pub(crate) async fn settle(
    replica: &LocalReplica,
    lost: ReplicaSlot,
    by: SettledBy,
) -> Result<(), String> {
    let missing = closing::open_at(replica, lost).or_else(|| waits_for(replica, lost));
    if let Some(missing) = missing {
        return Err(format!("not yet: {missing}; try again in a few seconds"));
    }
    let through = replica.state.inboxes.acknowledged(lost);
    let below = replica.engine.frozen_below(lost);
    let state = replica.view_state();
    let loss = state.as_ref().and_then(|state| state.losses.get(&lost));
    let known = loss.map_or(0, |loss| loss.incarnation + 1);
    let below = below.unwrap_or(0).max(known);
    decide_settlement(replica, lost, through, below, by).await
}

/// Has the set agree that a lost replica's controls end.
pub(crate) async fn decide_settlement(
    replica: &LocalReplica,
    slot: ReplicaSlot,
    through: u64,
    incarnation_below: u64,
    by: SettledBy,
) -> Result<(), String> {
    let views = replica.views.get().ok_or("the server starts; try again")?;
    let settlement = Settlement {
        through,
        incarnation_below,
        names: None,
        by,
        at_unix_s: unix_seconds(),
        id: 0,
    };
    let decision = replica.decision(DecisionKind::Settle { slot, settlement });
    match views.decide(decision).await {
        Ok(Outcome::Applied) => Ok(()),
        Ok(Outcome::Refused(why)) => Err(why),
        Err(error) => Err(format!("{error}; look at `meridian view`, then try again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of three the first has answered an update because the third has it; the first is lost, and the third is outside the
    /// view and needs a copy.
    #[test]
    fn a_copy_that_alone_has_an_update_of_a_lost_replica_is_not_given_up() {
        let (first, second) = (ReplicaSlot(1), ReplicaSlot(2));
        let here = |of, applied| Here {
            of,
            applied,
            whole: true,
        };
        let here = [here(first, 7), here(second, 3)];
        let have_all = |present: &[_]| have_all(present, |_| true, here.iter());
        let says = |applied: &[(u16, u64)], lacks: &[u16]| LeaseRequest {
            applied: applied.to_vec(),
            lacks: lacks.to_vec(),
            ..LeaseRequest::default()
        };
        let (behind, level) = (says(&[(1, 6)], &[]), says(&[(1, 7)], &[]));
        assert!(!have_all(&[(second, &behind)]));
        assert!(have_all(&[(second, &level)]));
        let without_contents = says(&[(1, 7)], &[1]);
        assert!(!have_all(&[(second, &without_contents)]));
        let maker = says(&[(2, 3)], &[]);
        assert!(have_all(&[(first, &maker)]), "its maker alone is there");
        let both = [(first, &maker), (second, &behind)];
        assert!(!have_all(&both), "when the first is lost nobody has it");
        assert!(have_all(&[(first, &maker), (second, &level)]));
        assert!(have_all(&[(first, &maker), (second, &without_contents)]));
        assert!(!have_all(&[]), "nobody is there to say so");
    }

    /// The first has answered a write because the third had it; the second, which is level with its updates, has not got the
    /// contents.
    #[test]
    fn counterexample_58_a_copy_that_alone_has_contents_of_one_that_is_there_is_not_given_up() {
        let (first, second) = (ReplicaSlot(1), ReplicaSlot(2));
        let here = |whole| Here {
            of: first,
            applied: 7,
            whole,
        };
        let says = LeaseRequest {
            applied: vec![(1, 7)],
            ..LeaseRequest::default()
        };
        let both = [(first, &LeaseRequest::default()), (second, &says)];
        let have_all = |shipped, whole| have_all(&both, |_| shipped, [here(whole)].iter());
        assert!(!have_all(false, true));
        assert!(have_all(true, true));
        assert!(have_all(false, false), "they are not here either");
    }

    /// A survivor gets what it lacks over a slow link, for longer than nobody would have to wait for something that nobody has.
    #[test]
    fn who_still_gets_what_it_lacks_of_a_lost_one_takes_no_copy() {
        let (lost, begin) = (ReplicaSlot(3), Instant::now());
        let mut missing = Missing::default();
        for second in 0..60 {
            let now = begin + Duration::from_secs(second);
            assert!(!missing.look(Some((lost, second / 5)), now), "{second} s");
        }
        let much_later = begin + Duration::from_secs(55) + RELAY_PATIENCE + PAUSE;
        assert!(missing.look(Some((lost, 11)), much_later));
        assert!(!missing.look(None, much_later));
    }
}
