//! What becomes of a lost replica's objects: which survivors have what it made, and when its controls end.
//!
//! Before any replica goes on with a lost replica's objects, all survivors bring each other to the same state (rule 32). `relay` carries updates
//! that only some have received. `contents` carries file contents from the replica that has the most (`state::losses`). A witness that cannot
//! pass on what it alone has received gives it up (`witnessed`). Then the controls may end: because a majority held everything that the lost
//! replica acknowledged (`takeover`), or because an administrator says so. Files that came only in part get a version of their own (`adopting`).
//! `level` compares the survivors, `settling` lets the set agree that controls end, `closing` stops the intake before that.
//!
//! What must never enter: which replicas are lost (`views`), and the rules of replication control.

mod adopting;
mod closing;
mod contents;
#[cfg(test)]
mod counterexamples;
mod level;
mod relay;
mod settling;
mod takeover;
mod witnessed;

pub(crate) use closing::{closed_here, heard};
pub(crate) use contents::{at_stake, completed, incomplete};
pub(crate) use level::{
    Lacking, Stood, here, is_first, lacking_here, lacking_of_lost, lacking_of_present, lacks_here,
    others_have_all, whole_here,
};
pub(crate) use relay::relayed;
pub(crate) use settling::{close_everywhere, settle, waits_for};

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use control::Incarnation;
use tokio::time::Instant;
use vfs::ReplicaSlot;
use view::ViewState;

use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{UNCHANGED, next_look};
use crate::membership::views;
use crate::state::relays;

/// The shortest time between two checks.
const PAUSE: Duration = Duration::from_millis(200);

/// Ends the controls that the set agreed to end.
pub(crate) async fn apply_settlements(replica: &Arc<LocalReplica>, state: &ViewState) {
    for (slot, end) in state.settled_streams() {
        if !replica.state.losses.settles_now(end.settlement) {
            continue;
        }
        if slot != replica.slot()
            && !views::lacks_what_others_had(replica, state, (slot, end.settlement))
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

/// If a lost replica may come back, its earlier incarnations' controls end. If it is gone, all its controls end, on every replica that learns of
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

/// The members have changed: earlier findings no longer count.
pub(crate) fn view_changed(replica: &Arc<LocalReplica>) {
    replica.state.losses.equalling().clear();
    replica.state.losses.closing.end_all();
    replica.engine.notify();
}

/// Logged once; repeats are logged as sums.
const COPY_NEEDED: &str = "a whole copy is needed";

/// How long something has been missing while none of it arrived.
#[derive(Debug, Default)]
struct Missing {
    lost: Option<(ReplicaSlot, u64)>,
    since: Option<Instant>,
}

impl Missing {
    /// Takes the lost stream with missing or extra updates, and the position applied here; `None` if all is level. Returns true if this lasted
    /// long without progress.
    fn look(&mut self, lost: Option<(ReplicaSlot, u64)>, now: Instant) -> bool {
        if lost != self.lost || lost.is_none() {
            self.lost = lost;
            self.since = lost.map(|_| now);
        }
        let since = self.since;
        since.is_some_and(|since| now.duration_since(since) > RELAY_PATIENCE)
    }
}

/// If no replica relays it within this time, none has kept it. Lost messages are sent again twice before.
const RELAY_PATIENCE: Duration = Duration::from_secs(15);
const _: () = assert!(RELAY_PATIENCE.as_millis() >= 3 * relays::AGAIN.as_millis());

/// Handles lost replicas' objects until this replica stops.
pub(crate) async fn attend(replica: Arc<LocalReplica>) {
    let mut missing = Missing::default();
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
        for slot in replica.lost() {
            relay::relay(&replica, slot).await;
            if !replica.state.is_witness {
                contents::equal(&replica, slot).await;
                takeover::take_over(&replica, slot).await;
            }
        }
    }
}

/// Adopts abandoned files until this replica stops. In a task of its own: each may wait for control that is not given before a replica is back for
/// which others relay.
pub(crate) async fn adopt(replica: Arc<LocalReplica>) {
    if replica.state.is_witness {
        return;
    }
    let mut adoption = adopting::Adoption::default();
    loop {
        next_look(&replica, PAUSE, UNCHANGED).await;
        adoption.go_on(&replica).await;
    }
}

/// This replica's updates of a lost replica differ from the others' for good. It needs another replica's copy.
async fn take_copy(replica: &Arc<LocalReplica>, lost: ReplicaSlot, how: &str) {
    let place = lost.0;
    let reason = format!("it {how} updates of replica {place}, which is lost");
    if let Some(sum) = replica.state.repeats.is_to_tell(COPY_NEEDED, lost) {
        tracing::warn!(reason, %sum, "a whole copy is needed");
    }
    if replica.takes_part() {
        replica.exclude(replica.slot(), &reason).await;
        if replica.state.is_witness {
            // A witness has nothing to deliver first.
            return witnessed::begin_anew(replica, &reason).await;
        }
        if replica.lease.is_up_to_date() {
            // Too few members may be left without it. Its new incarnation answers no client before it has the copy.
            if let Err(error) = replica.forget_complete().await {
                // The store has failed, which ends the server.
                tracing::error!(%error, "that the copy is not complete cannot be noted");
            }
            return replica.lease.leave(&reason);
        }
    }
    replica.state.needs_copy.store(true, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A survivor receives what it lacks over a slow link, for longer than it waits for what no replica has.
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
