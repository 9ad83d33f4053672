//! From an agreed view to one in force.
//!
//! A view is entered when the leases that this replica has granted to those who are not in it have run out. A
//! replica that finds itself outside a view, having been inside, starts anew: all that follows is
//! then as after a crash.

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

/// Between attempts to found a set.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Takes up what is agreed, or founds the set.
pub(crate) async fn begin(replica: &Arc<LocalReplica>) -> Result<Arc<Views>, ViewError> {
    let transport = Arc::new(PeerTransport(Arc::downgrade(replica)));
    let facts = Arc::new(Facts {
        store: replica.store.clone(),
        lineage: Some(replica.state.lineage.clone()),
    });
    let settings = replica.state.settings.views.clone();
    let warrant = Arc::new(MemberWarrant(Arc::downgrade(replica)));
    let views = Views::start(replica.slot(), settings, transport, facts, warrant).await?;
    // The replica that began the set, and nobody else: with other members there is a view already.
    let founds = replica.set.is_creator() && replica.state.members.list().members.len() == 1;
    if founds && views.state().borrow().epoch == 0 {
        tokio::spawn(found(views.clone(), replica.slot()));
    }
    Ok(views)
}

/// Founds the set, with its first replica as the only member; the others are taken in later.
async fn found(views: Arc<Views>, slot: ReplicaSlot) {
    while views.state().borrow().epoch == 0 {
        let founders = BTreeMap::from([(slot, Kind::Data)]);
        if let Err(error) = views.initialise(founders).await {
            tracing::warn!(%error, "the set cannot be founded yet");
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }
}

/// The view that a state of the set means for replication control. Who was never in a view does not count.
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

/// This incarnation does not go on when it can take part in no agreement any more.
pub(crate) async fn notice_end(replica: Arc<LocalReplica>, views: Arc<Views>) {
    let why = views.ended().await;
    tracing::error!(why, "this replica cannot agree on views any more");
    let why = format!("it cannot agree on views any more: {why}");
    replica.lease.leave(&why);
}

/// Follows what is agreed, until the replica stops.
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
                // What is agreed later counts instead.
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
    let has_answered = replica.lease.is_up_to_date();
    if previous.active.contains(&own) && was_left_out && has_answered {
        let excluded = state.members.get(&own);
        let excluded = excluded.and_then(|member| member.excluded.as_ref());
        let why = excluded.map_or("the others went on without it", |by| &by.reason);
        return replica.lease.leave(why);
    }
    replica.lease.prepare(&view);
    if view.active.contains(&own) && first && state.members.len() > 1 {
        // Its vote counts from then on, and cannot be given without knowing what is below what.
        has_rows(replica).await;
    }
    grants_run_out(replica, &view).await;
    let comes = view.active.contains(&own) && (was_left_out || !previous.active.contains(&own));
    if comes {
        // A peer that could not be asked before, as a connection was still to be made, has not been
        // silent.
        replica.state.peers.forget_silence();
    }
    // Of those whom an administrator gave up with the majority nobody here may have heard everything.
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
        // A replica that was started anew within a view asks to be admitted as the incarnation that
        // it is now.
    }
}

/// Returns when nobody who is not in the view relies on a grant of this replica any more. That moment moves when the
/// clocks show that time was missed.
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

/// Returns when the tree is known here, if not what is in its files.
async fn has_rows(replica: &LocalReplica) {
    let mut held = replica.state.held.subscribe();
    // The sender lives in `LocalReplica`.
    let _ = held.wait_for(|held| *held != Held::Nothing).await;
}

/// From now on the view is in force here.
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
        // What those lack who were away before this replica was started is on no list but the durable one.
        let away = replica.state.members.others().into_iter();
        for slot in away.filter(|slot| !view.active.contains(slot)) {
            join::ship_everything_marked(replica, slot);
        }
    }
    losses::view_changed(replica);
}
