//! What follows when two replicas meet: whether a session begins, and what is done about a copy that was restored from an older one.
//!
//! What must never enter: how this is detected (`lineage`).

use std::sync::Arc;

use bytes::Bytes;
use peer::{Sender, TurnedAway};
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::lineage::{Evidence, Fault, Introduction};
use crate::state::members::Speaker;
use crate::state::wire;

/// See [`peer::MessageHandler::introduce`].
pub(crate) fn introduce(replica: &LocalReplica, to: ReplicaSlot) -> Bytes {
    // A store that has failed ends the server elsewhere.
    let applied = replica.store.applied(to).unwrap_or_default();
    let introduction = replica.state.lineage.introduction(to, applied);
    wire::encode(&introduction).into()
}

/// See [`peer::MessageHandler::meet`].
pub(crate) fn meet(
    replica: &Arc<LocalReplica>,
    peer: Sender,
    introduction: &Bytes,
) -> Result<(), TurnedAway> {
    let unknown = |_| {
        TurnedAway {
        again: false,
        reason: "it does not say what it has met before; the two servers run different versions of the program, upgrade the older one".to_owned(),
        evidence: Bytes::new(),
    }
    };
    let said: Introduction = wire::decode(introduction).map_err(unknown)?;
    let lineage = &replica.state.lineage;
    let evidence = match replica.speaker(peer.slot) {
        // It is told why it is refused.
        Speaker::Removed => None,
        // These files may be from before it joined.
        Speaker::Stranger => lineage.proven_by(peer.slot, &said).map(Evidence::Mine),
        Speaker::InView | Speaker::Outside | Speaker::Witness => lineage.judge(peer, &said),
    };
    match evidence {
        None => Ok(()),
        Some(evidence) => Err(refuse(replica, peer.slot, evidence)),
    }
}

/// See [`peer::MessageHandler::turned_away`].
pub(crate) fn turned_away(replica: &Arc<LocalReplica>, by: ReplicaSlot, evidence: Evidence) {
    match evidence {
        Evidence::NotYet => replica.state.lineage.note_met(by),
        Evidence::Yours(fault) if replica.state.lineage.is_proven(&fault.what) => {
            give_up(replica, fault);
        }
        Evidence::Mine(fault) => replica.state.lineage.note_rolled_back(by, fault),
        // A false claim: that replica is refused itself when it meets this one in the other direction.
        Evidence::Yours(_) => {}
        Evidence::Unproven => tracing::warn!(
            by = by.0,
            "what this server has met of another one is not in that one's data directory, and cannot be proven there"
        ),
    }
}

fn refuse(replica: &Arc<LocalReplica>, peer: ReplicaSlot, evidence: Evidence) -> TurnedAway {
    let (again, reason) = match evidence {
        Evidence::NotYet => (
            true,
            "one of the two waits until it has met the other members".to_owned(),
        ),
        Evidence::Yours(fault) => (false, fault.of_own()),
        Evidence::Unproven => (false, unproven(peer, replica.slot())),
        Evidence::Mine(fault) => {
            give_up(replica, fault);
            (false, fault.of_other(replica.slot().0))
        }
    };
    if let Evidence::Yours(fault) = evidence {
        replica.state.lineage.note_rolled_back(peer, fault);
    }
    TurnedAway {
        again,
        reason,
        evidence: wire::encode(&wire::Grounds::Past(evidence)).into(),
    }
}

/// The message to a member whose claim is not believed.
fn unproven(by: ReplicaSlot, of: ReplicaSlot) -> String {
    format!(
        "replica {} says that it has met replica {} in a state that is not in the data directory there, and has no proof of it. If that directory was put back, or lost its end, replace its copy, there, as `meridian set rejoin --help` says; else replica {} is not to be trusted",
        by.0, of.0, by.0
    )
}

/// Handles a restored directory that an earlier start found.
pub(crate) fn take_up_fault(replica: &LocalReplica) {
    if let Some(fault) = replica.state.lineage.fault() {
        replica.engine.bar();
        tracing::error!("{}", fault.of_own());
    }
}

/// This directory was restored from an older state: from now on nothing is said in its name.
fn give_up(replica: &Arc<LocalReplica>, fault: Fault) {
    replica.engine.bar();
    if !replica.state.lineage.accept(fault) {
        return;
    }
    tracing::error!("{}", fault.of_own());
    if let Some(endpoint) = replica.endpoint.get() {
        endpoint.end_sessions();
    }
    let replica = replica.clone();
    tokio::spawn(async move {
        // If this fails, the next start finds it again.
        if let Err(error) = replica.state.lineage.keep_fault(fault).await {
            tracing::error!(%error, "that this copy was put back cannot be noted");
        }
    });
}
