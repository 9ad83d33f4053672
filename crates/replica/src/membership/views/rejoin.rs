//! Back into the view: what a replica outside it does until it may take part again.
//!
//! It has handed over what it alone had (its previous controls have ended), follows everybody's stream, and
//! lacks so little that nobody is kept waiting for the rest. Then it asks to be admitted. Where only members that
//! nobody can reach are in its way it says so, and those who are left may have it take their places (`exclude`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use vfs::{Counted, ReplicaSlot};
use view::{DecisionKind, Kind, Outcome, Settlement};

use super::join;
use super::missed;
use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{UNCHANGED, next_look};
use crate::frontend::reclaim;
use crate::membership::losses::{self, Stood};
use crate::replication::base;
use crate::replication::conversing;
use crate::replication::settled;
use crate::state::arrivals::Inbox;
use crate::state::copies::Held;
use crate::state::views::Fit;
use crate::state::wire::LeaseRequest;

/// The part of the reserve that has to be free before a replica comes back: one in this many.
const SPACE_PART: u64 = 4;

/// How often to see whether it may be asked.
const PAUSE: Duration = Duration::from_millis(100);
/// How often to say that all rows are missing: the supplier may not have been able to send them
/// when it was said first.
const ROWS_ASKED: Duration = Duration::from_secs(1);
/// How soon a peer that did not keep enough is asked again.
const HELLO_AGAIN: Duration = Duration::from_secs(2);
/// Between two requests.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);
/// Between attempts to put something aside on a full disk.
const WITHOUT_SPACE: Duration = Duration::from_secs(2);

/// So few updates and files, but for those changed just now, may be on their way when it asks.
const UPDATES: u64 = 1000;
const FILES: u64 = 64;
/// At most this many bytes of contents, too.
const BYTES: u64 = 256 << 20;

/// Why a replica starts anew that cannot be brought level.
const NEEDS_COPY: &str = "it needs a whole copy of the tree";

/// What is said while there is no space for what the others went on without.
const NO_SPACE_ASIDE: &str = "its disk is full: changes made here that the others went on without cannot be put aside; make space";

/// What is said of oneself is taken as news for so long, in times of the lease.
const NEWS_LEASES: u32 = 1;

/// What is said while a member of the view that it knew before its start does not know whether it still is one.
const STARTED_ANEW: &str =
    "it was started anew, and the others have not confirmed since then that it takes part";

/// What is said once this incarnation has left the view, until it has ended.
const STARTS_ANEW: &str = "it has left the view, and starts anew";

/// What is said while those in the view lack something else that is in a copy which is to be replaced.
const GIVEN_UP: &str = "the others went on without what was changed here, and have not yet all that others made which is here";

/// What is told of once, with sums later.
const TOO_FAR: &str = "too much was changed meanwhile; a whole copy is needed";
const OUTSIDE: &str = "this replica does not take part";
const NOT_ADMITTED: &str = "this replica is not admitted yet";

/// A peer does not keep what this replica lacks of its stream. Of a peer outside the view a member gets it from the others,
/// as of any that is lost, and says then that it can go on.
pub(crate) fn too_far(replica: &Arc<LocalReplica>, peer: ReplicaSlot) {
    if *replica.state.held.borrow() == Held::Nothing {
        // It speaks of a copy that was given up meanwhile.
        return;
    }
    if replica.takes_part() && !replica.lease.view().active.contains(&peer) {
        let replica = replica.clone();
        tokio::spawn(async move {
            tokio::time::sleep(HELLO_AGAIN).await;
            if let Some(inbox) = replica.state.inboxes.get(peer) {
                conversing::say_hello(&replica, &inbox, false);
            }
        });
        return;
    }
    if let Some(sum) = replica.state.repeats.is_to_tell(TOO_FAR, peer) {
        tracing::warn!(peer = peer.0, %sum, "too much was changed meanwhile; a whole copy is needed");
    }
    replica.state.needs_copy.store(true, Ordering::Release);
}

/// Notes what keeps this replica outside the view, and tells of it when it is something else than before.
fn set_obstacle(replica: &LocalReplica, obstacle: Option<String>) {
    let mut known = replica.state.obstacle.lock();
    if *known != obstacle {
        if let Some(obstacle) = &obstacle
            && let Some(sum) =
                (replica.state.repeats).is_to_tell_of(OUTSIDE, throttle::kind_of(obstacle))
        {
            tracing::info!(obstacle, %sum, "this replica does not take part");
        }
        *known = obstacle;
    }
}

/// Whether an earlier incarnation found that it needs a whole copy.
pub(crate) fn needs_copy_anew(store: &store::Store) -> vfs::Result<bool> {
    Ok(!store.facts(base::COPY_ANEW)?.is_empty())
}

/// Asks to be admitted whenever this replica is outside the view and could take part, until it stops.
pub(crate) async fn come_back(replica: Arc<LocalReplica>) {
    let mut asked = Asked::default();
    loop {
        if replica.state.members.is_removed() {
            // There is nothing to come back to, and what only this replica has stays as it is.
            return;
        }
        if replica.lease.has_left().borrow().is_some() {
            // The next incarnation comes back, and hands over what this one had. This one may take long to end.
            return set_obstacle(&replica, Some(STARTS_ANEW.to_owned()));
        }
        let takes_part = replica.takes_part() && replica.lease.is_up_to_date();
        if !takes_part || replica.state.needs_copy.load(Ordering::Acquire) {
            match catch_up(&replica, &mut asked).await {
                Ok(()) => {}
                // Nothing is lost that can be kept.
                Err(vfs::Error::NoSpace) => {
                    set_obstacle(&replica, Some(NO_SPACE_ASIDE.into()));
                    tokio::time::sleep(WITHOUT_SPACE).await;
                    continue;
                }
                // The store has failed, which ends the server.
                Err(error) => return tracing::error!(%error, "this replica cannot come back"),
            }
        }
        let pause = match obstacle(&replica) {
            Some(obstacle) => {
                set_obstacle(&replica, Some(obstacle));
                if let Err(error) = offer(&replica).await {
                    return tracing::error!(%error, "this replica cannot come back");
                }
                PAUSE
            }
            None if replica.takes_part() && !was_started_anew(&replica) => {
                let up_to_date = replica.lease.is_up_to_date();
                set_obstacle(
                    &replica,
                    if up_to_date {
                        None
                    } else {
                        join::waits_for(&replica)
                    },
                );
                PAUSE
            }
            None => {
                // What it knows of a view is of its previous incarnation.
                let anew = replica.takes_part().then(|| STARTED_ANEW.to_owned());
                set_obstacle(&replica, anew);
                ask(&replica).await;
                AFTER_REFUSAL
            }
        };
        next_look(&replica, pause, UNCHANGED).await;
    }
}

/// What was asked for last.
#[derive(Default)]
struct Asked {
    /// Contents, of whom in which session.
    contents: Option<(ReplicaSlot, u64)>,
    /// Rows, when.
    rows: Option<Instant>,
    /// What was here of others when it first needed a copy outside the view. What came later counts nowhere because it is here.
    stood: Option<Stood>,
}

/// Does what has to be done before: deals with what the others decided about it, and gets a copy if needed.
async fn catch_up(replica: &Arc<LocalReplica>, asked: &mut Asked) -> vfs::Result<()> {
    if let Some(settlement) = settled::undealt(replica)? {
        return match is_spared(replica, asked).await {
            true => accept(replica, &settlement).await,
            false => Ok(()),
        };
    }
    if let Some(state) = replica.view_state() {
        if state.is_settled(replica.slot()) {
            replica.engine.give_up_previous();
        }
        missed::go_through(replica, &state).await?;
    }
    let absent = absent(replica);
    let delivered = replica.engine.has_handed_over(&absent);
    let needs_copy = replica.state.needs_copy.load(Ordering::Acquire);
    if delivered && needs_copy && is_spared(replica, asked).await {
        base::give_up_copy(replica, None).await?;
        let rows = vec![(base::COPY_ANEW.to_vec(), None)];
        replica.store.put_facts(rows).await?;
        replica.lease.leave(NEEDS_COPY);
        return Ok(());
    }
    let held = *replica.state.held.borrow();
    let keepers = keepers_in_contact(replica, &absent);
    if held == Held::Rows
        && let Some((slot, inbox)) = supplier(replica, &keepers)
        && asked.contents != Some((*slot, inbox.session()))
    {
        asked.contents = Some((*slot, inbox.session()));
        base::want(replica, *slot)?;
    }
    let lately = asked.rows.is_some_and(|at| at.elapsed() < ROWS_ASKED);
    if held == Held::Nothing && !lately && !keepers.is_empty() {
        asked.rows = Some(Instant::now());
        // They know which of them is to supply it.
        for (_, inbox) in &keepers {
            conversing::say_hello(replica, inbox, false);
        }
    }
    Ok(())
}

/// Whether the others can do without this copy. A member leaves the view first where enough of them are left, and is one outside then;
/// else all of them have what was answered, and it gets the new one as a member. One outside may be the only one left that has an update of somebody who was
/// lost a moment ago, which was answered because it has it.
async fn is_spared(replica: &Arc<LocalReplica>, asked: &mut Asked) -> bool {
    let Some(state) = replica.view_state() else {
        return false;
    };
    if state.epoch != replica.lease.view().epoch.0 {
        // One that was started anew takes itself for a member, in a view that was over before, until the last one is in force here.
        return false;
    }
    if !replica.takes_part() {
        let fresh = replica.state.settings.site_lease * NEWS_LEASES;
        let stood = asked.stood.get_or_insert_with(|| losses::here(replica));
        return replica.state.is_witness || losses::present_have_all(replica, stood, fresh);
    }
    // One after the other: who has given its copy up counts for nobody. Nor does one whose own copy may be about to go: it
    // is not up to date, and of two that start anew the later one hears so.
    let others = replica.holders_in_contact();
    let is_whole =
        |slot: &ReplicaSlot| replica.state.conversations.held(*slot) == Some(Held::Everything);
    let stays = others
        .iter()
        .any(|slot| join::is_up_to_date(replica, *slot));
    let spared = stays && others.iter().all(is_whole) && losses::others_have_all(replica);
    let enough_are_left = state.active().count() > state.majority();
    if spared && enough_are_left && replica.can_do_without(replica.slot()) {
        replica.exclude(replica.slot(), NEEDS_COPY).await;
        return false;
    }
    // Of one that is up to date the others may lack what it has just made; it hands that over when it is started anew.
    spared && !replica.lease.is_up_to_date()
}

/// The members of the view in contact that keep contents. A member without any copy is in no view yet, but knows who is.
fn keepers_in_contact(
    replica: &LocalReplica,
    absent: &BTreeSet<ReplicaSlot>,
) -> Vec<(ReplicaSlot, Arc<Inbox>)> {
    let Some(state) = replica.view_state() else {
        return Vec::new();
    };
    let keepers = state.members.iter().filter(|(slot, member)| {
        let keeps = member.active && member.kind == Kind::Data;
        keeps && **slot != replica.slot() && !absent.contains(slot)
    });
    let in_contact = keepers.filter(|(slot, _)| replica.state.outbound.is_in_session(**slot));
    in_contact
        .filter_map(|(slot, _)| Some((*slot, replica.state.inboxes.get(*slot)?)))
        .collect()
}

/// Who of them supplies this replica with contents. Another one may be without a copy, too.
fn supplier<'a>(
    replica: &LocalReplica,
    keepers: &'a [(ReplicaSlot, Arc<Inbox>)],
) -> Option<&'a (ReplicaSlot, Arc<Inbox>)> {
    let is_whole = |keeper: &&(ReplicaSlot, Arc<Inbox>)| {
        replica.state.conversations.held(keeper.0) == Some(Held::Everything)
    };
    keepers.iter().find(is_whole).or(keepers.first())
}

/// What was changed here behind the place that the others kept is put aside; the others' tree takes its place.
async fn accept(replica: &Arc<LocalReplica>, settlement: &Settlement) -> vfs::Result<()> {
    let changed = replica.store.changed_after(settlement.through)?;
    let label = format!("settlement-{}", settlement.id);
    if !changed.is_empty() {
        let reason = "the other replicas went on without these versions";
        match replica.store.save_aside(&label, reason, &changed).await {
            // By an attempt that was broken off afterwards.
            Ok(_) | Err(vfs::Error::Exists) => {}
            Err(error) => return Err(error),
        }
        tracing::warn!(
            objects = changed.len(),
            label,
            "the others went on without changes made here; they are put aside: see `meridian recovered`"
        );
    }
    let id = settlement.id.to_be_bytes().to_vec();
    // Both or neither: what is here afterwards is the others' copy, however often this replica starts anew.
    base::give_up_copy(replica, Some((settled::DEALT_WITH.to_vec(), Some(id)))).await?;
    replica
        .lease
        .leave("the others decided to go on without what was changed here");
    Ok(())
}

/// What keeps a replica outside that had no free space: it still has none.
fn lack_of_space(replica: &LocalReplica) -> Option<String> {
    if let Some(trouble) = replica.state.trouble.lock().clone() {
        return Some(trouble);
    }
    let (left, wanted) = (
        replica.state.free_space.own(),
        replica.state.free_space.reserve() / SPACE_PART,
    );
    (left < wanted).then(|| {
        format!("its disk is full: {left} bytes can be filled, and {wanted} are needed; make space")
    })
}

/// Members of the view that neither this replica, which is outside, nor any other member has heard of lately.
pub(crate) fn absent(replica: &LocalReplica) -> BTreeSet<ReplicaSlot> {
    if replica.takes_part() {
        return BTreeSet::new();
    }
    let view = replica.lease.view();
    let fresh = replica.state.settings.site_lease * NEWS_LEASES;
    let news = replica.state.peers.news();
    let heard = |slot: &ReplicaSlot| {
        let (request, at) = news.get(slot)?.said.as_ref()?;
        (at.elapsed() < fresh).then_some(request)
    };
    let silent = view.active.iter().filter(|slot| heard(slot).is_none());
    let silent: BTreeSet<ReplicaSlot> = silent.copied().collect();
    let mut others = view.active.iter().filter_map(heard).peekable();
    let misses = |slot: &ReplicaSlot, request: &LeaseRequest| request.misses.contains(&slot.0);
    let agreed = others.peek().is_some()
        && others.all(|request| {
            request.epoch == view.epoch.0 && silent.iter().all(|slot| misses(slot, request))
        });
    match agreed {
        true => silent,
        false => BTreeSet::new(),
    }
}

/// Finds out whether this replica could take the places of members that are absent, which its questions tell.
async fn offer(replica: &Arc<LocalReplica>) -> vfs::Result<()> {
    let (epoch, without) = (replica.lease.view().epoch.0, absent(replica));
    let fit = !without.is_empty() && obstacle_but_for(replica, &without).is_none();
    if fit {
        others_went_on(replica).await?;
    }
    *replica.state.fit.lock() = fit.then_some(Fit { epoch, without });
    Ok(())
}

/// The members without which this replica could be admitted to the view of this number, for its questions.
pub(super) fn fit_without(replica: &LocalReplica, epoch: u64) -> Vec<u16> {
    if replica.takes_part() {
        return Vec::new();
    }
    let fit = replica.state.fit.lock();
    let fit = fit.as_ref().filter(|fit| fit.epoch == epoch);
    fit.map_or_else(Vec::new, |fit| {
        fit.without.iter().map(|slot| slot.0).collect()
    })
}

/// What keeps this replica outside; `None` when nothing does, or when it is inside.
fn obstacle(replica: &LocalReplica) -> Option<String> {
    obstacle_but_for(replica, &BTreeSet::new())
}

/// What would keep it outside if some members were not in the view.
fn obstacle_but_for(replica: &LocalReplica, absent: &BTreeSet<ReplicaSlot>) -> Option<String> {
    if replica.takes_part() {
        // Asked to go on as a new incarnation it need not have delivered anything.
        return None;
    }
    if let Some(full) = lack_of_space(replica) {
        return Some(full);
    }
    let view = replica.lease.view();
    let Some(state) = replica.view_state() else {
        return Some("it has not heard from the others yet".to_owned());
    };
    if !state.members.contains_key(&replica.slot()) {
        return Some("the others have not taken it in yet".to_owned());
    }
    if !matches!(settled::undealt(replica), Ok(None)) {
        let lacking = losses::lacking_in_view(replica).map_or_else(String::new, |(of, by)| {
            format!(": replica {} lacks updates of replica {}", by.0, of.0)
        });
        return Some(format!("{GIVEN_UP}{lacking}"));
    }
    if replica.state.needs_copy.load(Ordering::Acquire) {
        return Some(
            "its copy of the tree differs from the others', and it needs a whole one".to_owned(),
        );
    }
    if !replica.is_whole() {
        return Some("its copy of the tree is not complete".to_owned());
    }
    if !replica.engine.is_previous_settled(absent) {
        return Some("the others lack updates that were made here".to_owned());
    }
    if let Some(place) = lacks_what_is_not_kept(replica, absent) {
        return Some(format!(
            "replica {place} lacks updates that are kept here no more, and gets them from others"
        ));
    }
    if let Some(lost) = losses::lacking_of_lost(replica, absent) {
        return Some(format!(
            "it lacks updates of replica {}, which is lost",
            lost.0
        ));
    }
    let mut present = view.active.difference(absent);
    present.find_map(|slot| behind(replica, *slot, absent))
}

/// Whether the others know this member of the view as an earlier incarnation. Before they know better it
/// answers nobody: what they hear of the new one begins with a view.
fn was_started_anew(replica: &LocalReplica) -> bool {
    let state = replica.view_state();
    let member = state
        .as_ref()
        .and_then(|state| state.members.get(&replica.slot()));
    let earlier = member.is_some_and(|member| member.incarnation < replica.state.incarnation);
    earlier && !replica.lease.is_up_to_date()
}

/// What this replica lacks of one member, for people, if others were not in the view.
fn behind(
    replica: &LocalReplica,
    slot: ReplicaSlot,
    absent: &BTreeSet<ReplicaSlot>,
) -> Option<String> {
    let place = slot.0;
    let fresh = replica.state.settings.site_lease * NEWS_LEASES;
    let news = replica.state.peers.news();
    let said = news.get(&slot).and_then(|news| news.said.as_ref());
    let Some((said, _)) = said.filter(|(_, at)| at.elapsed() < fresh) else {
        return Some(format!("replica {place} does not answer"));
    };
    let settled = said.settled || !absent.is_empty();
    if !settled || said.epoch != replica.lease.view().epoch.0 {
        // What was acknowledged here before counts again only where somebody's place is taken; for any other admission
        // the members have to know everything themselves.
        return Some(format!(
            "replica {place} has not heard from every member of the view"
        ));
    }
    let applied = replica
        .state
        .inboxes
        .get(slot)
        .map_or(0, |inbox| inbox.applied());
    let updates = said.position.saturating_sub(applied);
    let heard = replica.state.peers.with(slot, |peer| peer.rejoin.heard());
    let bytes = heard.and_then(|left| left.bytes_left);
    if let Some(bytes) = bytes.filter(|bytes| *bytes > BYTES) {
        return Some(format!(
            "it lacks {bytes} bytes of contents of replica {place}"
        ));
    }
    (updates > UPDATES || said.owed > FILES).then(|| {
        let (updates, files) = (Counted(updates, "update"), Counted(said.owed, "file"));
        format!("it lacks {updates} and contents of {files} of replica {place}")
    })
}

/// A member of the view, not absent from it, that this replica could not bring level with what it has made.
fn lacks_what_is_not_kept(replica: &LocalReplica, absent: &BTreeSet<ReplicaSlot>) -> Option<u16> {
    let (own, news) = (replica.slot(), replica.state.peers.news());
    let view = replica.lease.view();
    let mut members = view.active.difference(absent);
    let lacking = members.find(|slot| {
        let said = news.get(slot).and_then(|news| news.said.as_ref());
        let mut applied = said.into_iter().flat_map(|(request, _)| &request.applied);
        applied.any(|(of, applied)| *of == own.0 && *applied < replica.trimmed())
    });
    lacking.map(|slot| slot.0)
}

/// From here on this replica, which is outside, may be admitted: what is true of who was in the view all the time is not true of it.
async fn others_went_on(replica: &LocalReplica) -> vfs::Result<()> {
    replica.forget_complete().await?;
    reclaim::note_others_went_on(replica).await
}

async fn ask(replica: &Arc<LocalReplica>) {
    let Some(views) = replica.views.get() else {
        return;
    };
    if !replica.takes_part()
        && let Err(error) = others_went_on(replica).await
    {
        return tracing::error!(%error, "this replica cannot come back");
    }
    let decision = replica.decision(DecisionKind::Admit {
        slot: replica.slot(),
        incarnation: replica.state.incarnation,
    });
    match views.decide(decision).await {
        Ok(Outcome::Applied) => {}
        Ok(Outcome::Refused(why)) => {
            if let Some(sum) = replica
                .state
                .repeats
                .is_to_tell(NOT_ADMITTED, replica.slot())
            {
                tracing::info!(why, %sum, "this replica is not admitted yet");
            }
        }
        Err(error) => tracing::debug!(%error, "nothing is decided"),
    }
}
