//! Asking for leases and granting them.
//!
//! The requests also report how far each replica is; others decide by that.
//!
//! What must never enter: those decisions.

use std::sync::Arc;
use std::time::Duration;

use control::{ClockDifference, Incarnation, Moment, Question};
use peer::Lane;
use tokio::time::Instant;
use vfs::ReplicaSlot;

use super::{join, rejoin};
use crate::driver::clock::lease_time;
use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{UNCHANGED, next_look, ticks};
use crate::frontend::free_space;
use crate::membership::links;
use crate::membership::losses;
use crate::state::settings::Durability;
use crate::state::views::ShippedThere;
use crate::state::wire::{self, LeaseGrant, LeaseRequest};

/// How many times a replica asks for a grant within one lease.
const ASKED_PER_LEASE: u32 = 5;
/// The shortest time between checks for news that others wait for; news is sent at once.
const LOOK: Duration = Duration::from_millis(50);

/// Changes of this recent time need not have arrived: contents rest briefly before they are sent, and take a round trip.
const LATELY: Duration = Duration::from_secs(2);

/// What others act on as soon as they hear it, while they go on without a lost replica or admit one.
#[derive(Debug, PartialEq)]
struct Announcement {
    epoch: u64,
    settled: bool,
    up_to_date: bool,
    complete: bool,
    /// How far the streams of replicas outside the view are applied.
    applied: Vec<(u16, u64)>,
    whole: Vec<(u16, u64)>,
    closed: Vec<u16>,
    fit_without: Vec<u16>,
}

impl Announcement {
    fn of(replica: &LocalReplica) -> Announcement {
        let view = replica.lease.view();
        let (epoch, settled) = replica.engine.epoch_and_settled();
        let mut applied = applied_here(replica);
        applied.retain(|(slot, _)| !view.active.contains(&ReplicaSlot(*slot)));
        Announcement {
            epoch,
            settled: replica.takes_part() && settled,
            up_to_date: replica.lease.is_up_to_date(),
            complete: replica.is_complete(),
            applied,
            whole: losses::whole_here(replica),
            closed: losses::closed_here(replica),
            fit_without: rejoin::fit_without(replica, epoch),
        }
    }
}

/// Asks for grants until this replica stops.
pub(crate) async fn keep(replica: Arc<LocalReplica>) {
    replica.begin_awareness();
    let interval = replica.state.settings.site_lease / ASKED_PER_LEASE;
    let mut ticks = ticks(&replica, interval);
    let mut told = Announcement::of(&replica);
    let mut last = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = news(&replica, &told) => {}
            () = replica.lease.ended_early() => {}
        }
        if last.elapsed() > 3 * interval {
            // This process was stopped for a while; the answers of that time are not read yet.
            replica.state.peers.forget_silence();
        }
        last = Instant::now();
        replica.lease.look_at_clocks();
        replica.look_for_slow();
        replica.send_completed();
        if let Err(error) = replica.state.lineage.keep().await {
            // A store that has failed ends the server.
            tracing::error!(%error, "what was met of others cannot be kept");
        }
        // A store that has failed ends the server.
        let space = replica.store.space_for_contents();
        if let Ok(space) = &space {
            replica.state.free_space.note_own(space);
        }
        free_space::forget_outsiders(&replica);
        let available = match replica.state.is_witness {
            // It stores no contents, so no replica must spare its disk.
            true => u64::MAX,
            false => space.map_or(0, |space| space.available_bytes),
        };
        told = Announcement::of(&replica);
        ask_all(&replica, available);
    }
}

/// Returns when there is something to tell.
async fn news(replica: &LocalReplica, told: &Announcement) {
    loop {
        next_look(replica, LOOK, UNCHANGED).await;
        replica.lease.look_at_clocks();
        replica.look_for_slow();
        if Announcement::of(replica) != *told {
            return;
        }
    }
}

fn ask_all(replica: &Arc<LocalReplica>, available: u64) {
    let others = replica.state.members.others();
    let question = replica.lease.request();
    let links = links::links(replica);
    let lacks = losses::lacks_here(replica);
    let silent = replica.silent();
    let lacking = losses::lacking_here(replica, &lacks, &silent);
    // Read before the positions that are sent with it.
    let closed = losses::closed_here(replica);
    let applied = applied_here(replica);
    let whole = losses::whole_here(replica);
    let misses = silent.into_iter().map(|slot| slot.0);
    let misses: Vec<u16> = misses.collect();
    let short_of = replica
        .state
        .free_space
        .short_of(Instant::now())
        .into_iter();
    let short_of: Vec<u16> = short_of.map(|slot| slot.0).collect();
    for slot in others {
        let own = replica.report_to(slot, LATELY + replica.state.settings.data_delay);
        let request = LeaseRequest {
            asked: question.asked.0,
            epoch: own.epoch,
            position: own.position,
            applied: applied.clone(),
            owed: own.owed.unwrap_or_else(|| replica.kept_files() as u64),
            steady: own.steady,
            up_to_date: own.up_to_date,
            complete: replica.is_complete(),
            available,
            whole: whole.clone(),
            aware: own.aware,
            majority_by_default: replica.state.settings.durability == Durability::Majority,
            incarnation: question.incarnation.0,
            mark: Some(replica.state.lineage.mark()),
            settled: own.settled,
            misses: misses.clone(),
            fit_without: rejoin::fit_without(replica, own.epoch),
            links: links.clone(),
            short_of: short_of.clone(),
            lacks: lacks.clone(),
            lacking: lacking.clone(),
            closed: closed.clone(),
        };
        let message = wire::body(wire::Kind::LeaseRequest, &request);
        replica.state.outbound.send(slot, Lane::Control, message);
    }
}

fn applied_here(replica: &LocalReplica) -> Vec<(u16, u64)> {
    let inboxes = replica.state.inboxes.lock();
    let applied = inboxes.iter();
    applied
        .map(|(slot, inbox)| (slot.0, inbox.acknowledged()))
        .collect()
}

/// A peer requests a lease.
pub(crate) fn lease_requested(
    replica: &Arc<LocalReplica>,
    from: ReplicaSlot,
    request: LeaseRequest,
) {
    let given = replica.lease.grant(from);
    let grant = LeaseGrant {
        incarnation: request.incarnation,
        asked: request.asked,
        given,
        time_of_day_us: time_of_day_us(replica),
        shipped: replica.shipped(from, &request, &replica.silent()),
    };
    if request.up_to_date {
        join::forgive(replica, from, request.epoch);
    } else {
        join::greet_unknown(replica, from);
        join::look_at_debts(replica);
    }
    let by_default = replica.state.settings.durability == Durability::Majority;
    replica
        .state
        .losses
        .awareness()
        .heard(from, &request, by_default);
    let available = request.available;
    losses::heard(replica, &request);
    let is_news = replica.state.peers.note_said(from, request);
    free_space::note_available(replica, from, available);
    let message = wire::body(wire::Kind::LeaseGrant, &grant);
    replica.state.outbound.send(from, Lane::Control, message);
    if is_news {
        replica.engine.notify();
    }
}

/// A peer grants a lease, or refuses it.
pub(crate) fn lease_granted(replica: &LocalReplica, from: ReplicaSlot, grant: LeaseGrant) {
    replica.state.peers.note_heard(from);
    if let Some(shipped) = shipped_there(replica, &grant) {
        replica.state.peers.note_shipped(from, shipped);
    }
    if let Some(difference) = clock_shown(replica, &grant) {
        replica.state.peers.note_clock(from, difference);
    }
    if grant.given {
        let question = Question {
            incarnation: Incarnation(grant.incarnation),
            asked: Moment(grant.asked),
        };
        replica.lease.granted(from, question);
    }
}

fn time_of_day_us(replica: &LocalReplica) -> i64 {
    let now = replica.store.time_of_day();
    let micros = i64::from(now.nanoseconds / 1000);
    now.seconds.saturating_mul(1_000_000).saturating_add(micros)
}

/// Which contents of the sender the members have, by a request of this incarnation.
fn shipped_there(replica: &LocalReplica, grant: &LeaseGrant) -> Option<ShippedThere> {
    let shipped = grant.shipped.as_ref()?;
    let asked_here = grant.incarnation == replica.state.incarnation && shipped.asked <= grant.asked;
    asked_here.then(|| ShippedThere {
        epoch: shipped.epoch,
        before: Moment(shipped.asked),
        without: shipped.without.clone(),
    })
}

/// How far the sender's time of day is from this replica's. `None` if another start of this replica asked, because its lease clock may have been
/// another.
fn clock_shown(replica: &LocalReplica, grant: &LeaseGrant) -> Option<ClockDifference> {
    // In this order, so that the time between the two counts as part of the round trip.
    let own_us = time_of_day_us(replica);
    let (asked, now) = (Moment(grant.asked), lease_time());
    let asked_here = grant.incarnation == replica.state.incarnation && asked <= now;
    asked_here.then(|| ClockDifference::shown(asked, now, own_us, grant.time_of_day_us))
}
