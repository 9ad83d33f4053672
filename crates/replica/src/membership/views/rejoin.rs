//! Rejoining: what a replica outside the view does until it may take part again.
//!
//! First it hands over what it alone had (its previous controls have ended) and follows all streams, until it lacks little and members hardly
//! wait for the rest. Then it asks to be admitted. If only unreachable members block it, it reports this, and the remaining members may let it
//! replace them (`exclude`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use vfs::{Counted, ReplicaSlot};
use view::{DecisionKind, Kind, Outcome, Settlement};

use super::join;
use super::missed;
use super::supply::{Supply, next_supplier};
use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{UNCHANGED, next_look};
use crate::frontend::reclaim;
use crate::membership::losses::{self, Lacking, Stood};
use crate::replication::base;
use crate::replication::conversing;
use crate::replication::settled;
use crate::state::arrivals::Inbox;
use crate::state::copies::Held;
use crate::state::views::Fit;
use crate::state::wire::LeaseRequest;

/// A replica comes back only if this part of the reserve is free: one in this many.
const SPACE_PART: u64 = 4;

/// How often to check whether it may ask.
const PAUSE: Duration = Duration::from_millis(100);
/// How often to report that all rows are missing: the supplier may have been unable to send them after the first report.
const ROWS_ASKED: Duration = Duration::from_secs(1);
/// A peer that did not keep enough is greeted again after this time.
const HELLO_AGAIN: Duration = Duration::from_secs(2);
/// Pause between requests.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);
/// The pause between attempts to put data aside on a full disk.
const WITHOUT_SPACE: Duration = Duration::from_secs(2);

/// At most this many updates and files may be in transit when it asks, not counting recent changes.
const UPDATES: u64 = 1000;
const FILES: u64 = 64;
/// At most this many bytes of contents, too.
const BYTES: u64 = 256 << 20;

/// Why a replica that cannot be brought level restarts.
const NEEDS_COPY: &str = "it needs a whole copy of the tree";

/// Shown while there is no space to put aside what the others went on without.
const NO_SPACE_ASIDE: &str = "its disk is full: changes made here that the others went on without cannot be put aside; make space";

/// A report counts as fresh for this many lease periods.
const NEWS_LEASES: u32 = 1;

/// Shown while a replica that was a member before its start does not know whether it still is one.
const STARTED_ANEW: &str =
    "it was started anew, and the others have not confirmed since then that it takes part";

/// Shown after this incarnation has left the view, until it has ended.
const STARTS_ANEW: &str = "it has left the view, and starts anew";

/// Shown until the copy that is to be replaced can be given up.
const GIVEN_UP: &str = "the others went on without what was changed here";

/// Logged once; repeats are logged as sums.
const TOO_FAR: &str = "too much was changed meanwhile; a whole copy is needed";
const OUTSIDE: &str = "this replica does not take part";
const NOT_ADMITTED: &str = "this replica is not admitted yet";

/// A peer does not keep what this replica lacks of its stream. If the peer is outside the view, a member gets this from the others, as for any
/// lost replica. It greets the peer again later.
pub(crate) fn too_far(replica: &Arc<LocalReplica>, peer: ReplicaSlot) {
    if *replica.state.held.borrow() == Held::Nothing {
        // This concerns a copy that was given up meanwhile.
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

/// Notes what keeps this replica outside the view, and logs it if it has changed.
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
            // A removed replica does not come back. What only it has stays as it is.
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
                // It gives up nothing before it is put aside.
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
                let lacking = asked.lacking.map_or(obstacle.clone(), |lacking| {
                    format!("{obstacle}; before that, the others need what is here: {lacking}")
                });
                set_obstacle(&replica, Some(lacking));
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
                // What it knows of the view is from its previous incarnation.
                let anew = replica.takes_part().then(|| STARTED_ANEW.to_owned());
                set_obstacle(&replica, anew);
                ask(&replica).await;
                AFTER_REFUSAL
            }
        };
        next_look(&replica, pause, UNCHANGED).await;
    }
}

/// The last requests.
#[derive(Default)]
struct Asked {
    /// The member that was asked for the contents of the copy.
    contents: Option<Supply>,
    /// Time of the request for rows.
    rows: Option<Instant>,
    /// What was here of other streams when it first needed a copy outside the view. Later arrivals do not count as held here.
    stood: Option<Stood>,
    /// What the others were found to lack of this copy, which is to be given up outside the view.
    lacking: Option<Lacking>,
}

/// Prepares the return: deals with what the others decided about this replica, and gets a copy if needed.
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
        && let Some(slot) = next_supplier(replica, &keepers, &mut asked.contents)
    {
        base::want(replica, slot)?;
    }
    let lately = asked.rows.is_some_and(|at| at.elapsed() < ROWS_ASKED);
    if held == Held::Nothing && !lately && !keepers.is_empty() {
        asked.rows = Some(Instant::now());
        // They know which of them supplies it.
        for (_, inbox) in &keepers {
            conversing::say_hello(replica, inbox, false);
        }
    }
    Ok(())
}

/// Whether the others can do without this copy. If enough members would be left, a member first leaves the view, and then counts as outside.
/// Otherwise all members have every acknowledged update, and it gets the new copy as a member. A replica outside may hold the only copy of an
/// update of a replica that was just lost. That update was acknowledged because this copy exists.
async fn is_spared(replica: &Arc<LocalReplica>, asked: &mut Asked) -> bool {
    let Some(state) = replica.view_state() else {
        return false;
    };
    if state.epoch != replica.lease.view().epoch.0 {
        // A restarted replica believes that it is a member, in an old view, until the latest view is in force here.
        return false;
    }
    if !replica.takes_part() {
        let own = state.members.get(&replica.slot());
        if own.is_some_and(|own| !own.was_active) {
            // Its copy is that of members, and nothing was answered because it exists.
            let keepers = keepers_in_contact(replica, &BTreeSet::new());
            return keepers.iter().any(|(slot, _)| {
                replica.state.conversations.held(*slot) == Some(Held::Everything)
            });
        }
        let fresh = replica.state.settings.site_lease * NEWS_LEASES;
        let stood = asked.stood.get_or_insert_with(|| losses::here(replica));
        if !replica.state.is_witness {
            asked.lacking = losses::lacking_of_present(replica, stood, fresh);
        }
        return asked.lacking.is_none();
    }
    // Replicas give up their copies one after the other: a copy that was given up does not count. Nor does a copy that is not up to date,
    // because it may be given up soon. If two restart, the later one learns this.
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
    // If this replica is up to date, the others may lack its newest updates. It hands them over after a restart.
    spared && !replica.lease.is_up_to_date()
}

/// The members in contact that keep contents. A replica without a copy is in no view yet, but knows the members.
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

/// Puts aside what was changed here after the position that the others kept. Their tree replaces the copy.
async fn accept(replica: &Arc<LocalReplica>, settlement: &Settlement) -> vfs::Result<()> {
    let changed = replica.store.changed_after(settlement.through)?;
    let label = format!("settlement-{}", settlement.id);
    if !changed.is_empty() {
        let reason = "the other replicas went on without these versions";
        match replica.store.save_aside(&label, reason, &changed).await {
            // An interrupted attempt has saved it.
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
    // Both in one step: from now on the copy here is the others' copy, after any number of restarts.
    base::give_up_copy(replica, Some((settled::DEALT_WITH.to_vec(), Some(id)))).await?;
    replica
        .lease
        .leave("the others decided to go on without what was changed here");
    Ok(())
}

/// The disk trouble that keeps this replica outside, if any.
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

/// Members that are silent to this replica, which is outside, if all other members also report them as silent.
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

/// Finds out whether this replica could replace absent members. Its lease requests report the result.
async fn offer(replica: &Arc<LocalReplica>) -> vfs::Result<()> {
    let (epoch, without) = (replica.lease.view().epoch.0, absent(replica));
    let fit = !without.is_empty() && obstacle_but_for(replica, &without).is_none();
    if fit {
        others_went_on(replica).await?;
    }
    *replica.state.fit.lock() = fit.then_some(Fit { epoch, without });
    Ok(())
}

/// The members without which this replica could be admitted to the view of this epoch, for its lease requests.
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

/// What keeps this replica outside; `None` if nothing does, or if it takes part.
fn obstacle(replica: &LocalReplica) -> Option<String> {
    obstacle_but_for(replica, &BTreeSet::new())
}

/// What would keep it outside if the absent members were not in the view.
fn obstacle_but_for(replica: &LocalReplica, absent: &BTreeSet<ReplicaSlot>) -> Option<String> {
    if replica.takes_part() {
        // To continue as a new incarnation, it need not have delivered anything.
        return None;
    }
    if let Some(full) = lack_of_space(replica) {
        return Some(full);
    }
    let view = replica.lease.view();
    let Some(state) = replica.view_state() else {
        return Some(unheard(replica));
    };
    if !state.members.contains_key(&replica.slot()) {
        return Some("the others have not taken it in yet".to_owned());
    }
    if !matches!(settled::undealt(replica), Ok(None)) {
        return Some(GIVEN_UP.to_owned());
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

/// Why a replica that has just joined knows of no view yet. The others pass it on when a majority of them is in contact.
fn unheard(replica: &LocalReplica) -> String {
    let others = replica.state.members.others().into_iter();
    let in_session = |slot: &ReplicaSlot| replica.state.outbound.is_in_session(*slot);
    let (here, away): (Vec<_>, Vec<_>) = others.partition(in_session);
    let numbers = |slots: Vec<ReplicaSlot>| {
        let numbers: Vec<String> = slots.iter().map(|slot| slot.0.to_string()).collect();
        numbers.join(", ")
    };
    match (here.is_empty(), away.is_empty()) {
        (true, _) => "it is connected to none of the others yet".to_owned(),
        (false, true) => "the others have not told it of the view yet".to_owned(),
        (false, false) => format!(
            "the others have not told it of the view yet, which they can when a majority of them is in contact; replica {} does not answer here",
            numbers(away)
        ),
    }
}

/// Whether the others know this member only as an earlier incarnation. Until they know the new one, it answers no client: they hear the new one
/// only from a new view on.
fn was_started_anew(replica: &LocalReplica) -> bool {
    let state = replica.view_state();
    let member = state
        .as_ref()
        .and_then(|state| state.members.get(&replica.slot()));
    let earlier = member.is_some_and(|member| member.incarnation < replica.state.incarnation);
    earlier && !replica.lease.is_up_to_date()
}

/// What this replica lacks of one member, as text for people, if the absent members were not in the view.
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
        // Earlier acknowledgements of this replica count again only if it replaces a member. For any other admission the members must know
        // everything themselves.
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

/// A present member that lacks updates of this replica that are no longer kept here.
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

/// Notes that this replica, which is outside, may now be admitted. What holds for permanent members does not hold for it.
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
