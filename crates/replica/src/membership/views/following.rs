//! From an agreed view to one in force.
//!
//! This replica enters a view when the leases that it granted to replicas outside that view have run out. A replica that was inside and finds
//! itself outside restarts: everything that follows is then as after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use control::{Epoch, View};
use tokio::sync::watch;
use tokio::time::Duration;
use vfs::ReplicaSlot;
use view::{Kind, ViewError, ViewState, Views};

use super::seam::{Facts, MemberWarrant, PeerTransport};
use super::{configuring, join};
use crate::driver::clock::lease_time;
use crate::driver::local_replica::LocalReplica;
use crate::membership::accounts;
use crate::membership::losses;
use crate::membership::members;
use crate::state::copies::Held;

/// Pause between attempts to found a set.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Loads the agreed state, or founds the set.
pub(crate) async fn begin(replica: &Arc<LocalReplica>) -> Result<Arc<Views>, ViewError> {
    let transport = Arc::new(PeerTransport(Arc::downgrade(replica)));
    let facts = Arc::new(Facts {
        store: replica.store.clone(),
        lineage: Some(replica.state.lineage.clone()),
    });
    let settings = replica.state.settings.views.clone();
    let warrant = Arc::new(MemberWarrant(Arc::downgrade(replica)));
    let views = Views::start(replica.slot(), settings, transport, facts, warrant).await?;
    // Only the replica that created the set: with other members a view exists already.
    let founds = replica.set.is_creator() && replica.state.members.list().members.len() == 1;
    if founds && views.state().borrow().epoch == 0 {
        tokio::spawn(found(views.clone(), replica.slot()));
    }
    Ok(views)
}

/// Founds the set with its first replica as the only member; others are added later.
async fn found(views: Arc<Views>, slot: ReplicaSlot) {
    while views.state().borrow().epoch == 0 {
        let founders = BTreeMap::from([(slot, Kind::Data)]);
        if let Err(error) = views.initialise(founders).await {
            tracing::warn!(%error, "the set cannot be founded yet");
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }
}

/// The view for replication control in a state of the set. Members that were never active do not count.
pub(super) fn view_of(state: &ViewState) -> View {
    let voters = state.members.iter().filter(|(_, member)| member.was_active);
    let active = state.members.iter().filter(|(_, member)| member.active);
    View {
        epoch: Epoch(state.epoch),
        configured: voters.map(|(slot, _)| *slot).collect(),
        active: active.clone().map(|(slot, _)| *slot).collect(),
        since: active
            .map(|(slot, member)| (*slot, Epoch(member.since_epoch)))
            .collect(),
    }
}

/// Ends this incarnation when it can no longer take part in any agreement.
pub(crate) async fn notice_end(replica: Arc<LocalReplica>, views: Arc<Views>) {
    let why = views.ended().await;
    tracing::error!(why, "this replica cannot agree on views any more");
    let why = format!("it cannot agree on views any more: {why}");
    replica.lease.leave(&why);
}

/// Follows the agreed state until this replica stops.
pub(crate) async fn follow(
    replica: Arc<LocalReplica>,
    mut states: watch::Receiver<Arc<ViewState>>,
) {
    loop {
        let state = states.borrow_and_update().clone();
        members::agreed_removals(&replica, &state.removed);
        if state.epoch > replica.lease.view().epoch.0 {
            let entering = enter(&replica, &state);
            tokio::select! {
                () = entering => {}
                // A later agreed state counts instead.
                changed = states.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            }
        }
        accounts::follow(&replica, &state);
        losses::apply_settlements(&replica, &state).await;
        if states.changed().await.is_err() {
            return;
        }
    }
}

async fn enter(replica: &Arc<LocalReplica>, state: &Arc<ViewState>) {
    let (previous, view) = (replica.lease.view(), view_of(state));
    let own = replica.slot();
    let since = view.since.get(&own).copied().unwrap_or(Epoch(0));
    let first = previous.epoch == Epoch(0);
    let was_left_out = !view.active.contains(&own) || since > previous.epoch;
    // From here on this replica does not come up to date in a view that it leaves.
    replica.lease.prepare(&view);
    let has_answered = replica.lease.is_up_to_date();
    if previous.active.contains(&own) && was_left_out && has_answered {
        let excluded = state.members.get(&own);
        let excluded = excluded.and_then(|member| member.excluded.as_ref());
        let why = excluded.map_or("the others went on without it", |by| &by.reason);
        return replica.lease.leave(why);
    }
    if view.active.contains(&own) && first && state.members.len() > 1 {
        // Its vote counts from then on, and needs to know which object is below which.
        has_rows(replica).await;
    }
    grants_run_out(replica, &view).await;
    let comes = view.active.contains(&own) && (was_left_out || !previous.active.contains(&own));
    if comes {
        // A peer that could not be asked before a connection existed has not been silent.
        replica.state.peers.forget_silence();
    }
    // If an administrator gave up replicas with the majority, no survivor may know all they did.
    if let Err(error) = replica.store.pass_versions(state.removed.clone()).await {
        // The store has failed, which ends the server.
        return tracing::error!(%error, "versions that removed replicas may have shown cannot be passed");
    }
    take_effect(replica, state, &previous, view.clone());
    configuring::note_current(replica);
    if comes {
        if !first {
            join::begin(replica, since);
        } else if state.members.len() == 1 {
            replica.lease.set_up_to_date(true);
            join::note_complete(replica).await;
        }
        // A replica that restarted within a view asks to be admitted as its new incarnation.
    }
}

/// Returns when no replica outside the view relies on a grant of this replica any more. That moment moves if the clocks show that time was
/// missed.
async fn grants_run_out(replica: &LocalReplica, view: &View) {
    loop {
        replica.lease.look_at_clocks();
        let may_enter = replica.lease.prepare(view);
        let wait = may_enter.0.saturating_sub(lease_time().0);
        if wait == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_micros(wait)).await;
    }
}

/// Returns when the tree is known here, even without file contents.
async fn has_rows(replica: &LocalReplica) {
    let mut held = replica.state.held.subscribe();
    // The sender lives in `LocalReplica`.
    let _ = held.wait_for(|held| *held != Held::Nothing).await;
}

/// Puts the view in force here.
fn take_effect(replica: &Arc<LocalReplica>, state: &Arc<ViewState>, previous: &View, view: View) {
    let active: Vec<String> = view.active.iter().map(|slot| slot.0.to_string()).collect();
    tracing::info!(
        epoch = view.epoch.0,
        active = active.join(", "),
        "a view is in force"
    );
    let others = view.active.iter().filter(|slot| **slot != replica.slot());
    let new = others.filter(|slot| view.is_new(**slot, previous));
    let new: BTreeSet<ReplicaSlot> = new.copied().collect();
    replica.lease.enter(view.clone());
    if !view.active.contains(&replica.slot()) {
        replica.lease.set_up_to_date(false);
    }
    new.iter()
        .for_each(|slot| replica.state.peers.note_heard(*slot));
    let members = state.members.iter();
    let witnesses = members.filter(|(_, member)| member.kind == Kind::Witness);
    let witnesses = witnesses.map(|(slot, _)| *slot).collect();
    replica.engine.enter_view(&view, witnesses, previous);
    if previous.active.contains(&replica.slot()) {
        for slot in new {
            join::greet_newcomer(replica, slot);
        }
    } else {
        // Only the durable list names what other replicas lack if they were away before this one started.
        let away = replica.state.members.others().into_iter();
        for slot in away.filter(|slot| !view.active.contains(slot)) {
            join::ship_everything_marked(replica, slot);
        }
    }
    losses::view_changed(replica);
}
