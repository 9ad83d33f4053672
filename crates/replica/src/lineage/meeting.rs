//! What two replicas say of their pasts when they connect, and what follows.

use std::sync::Arc;

use bytes::Bytes;
use peer::{Sender, TurnedAway};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use vfs::ReplicaSlot;

use super::{Branch, Contradiction, Fault, Lineage, Met, State};
use crate::shared::Shared;
use crate::views::unix_seconds;
use crate::wire;

/// What a replica says of itself, and of the one it says it to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Introduction {
    own: Branch,
    /// It waits until it has met others; no session begins yet.
    waits: bool,
    /// What proves that its directory was put back.
    fault: Option<Fault>,
    /// What it has met of the receiver.
    met: Option<Met>,
    /// How far it has applied the receiver's updates.
    applied: u64,
}

/// What a replica is told that is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Evidence {
    /// Nothing is wrong; one of the two waits until it has met others.
    NotYet,
    /// The receiver's directory was put back.
    Yours(Fault),
    /// The sender's was.
    Mine(Fault),
}

/// See [`peer::Owner::introduce`].
pub(crate) fn introduce(shared: &Shared, to: ReplicaSlot) -> Bytes {
    // A store that has failed ends the server elsewhere.
    let applied = shared.store.applied(to).unwrap_or_default();
    let lineage = &shared.lineage;
    let mut state = lineage.state();
    let introduction = Introduction {
        waits: lineage.waits(&mut state),
        own: state.own.clone(),
        fault: state.fault,
        met: state.met.get(&to).copied(),
        applied,
    };
    wire::encode(&introduction).into()
}

/// See [`peer::Owner::meet`].
pub(crate) fn meet(
    shared: &Arc<Shared>,
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
    match shared.lineage.judge(peer, &said) {
        None => Ok(()),
        Some(evidence) => Err(refuse(shared, peer.slot, evidence)),
    }
}

/// See [`peer::Owner::turned_away`].
pub(crate) fn turned_away(shared: &Arc<Shared>, by: ReplicaSlot, evidence: Evidence) {
    match evidence {
        Evidence::NotYet => shared.lineage.note_met(by),
        Evidence::Yours(fault) if shared.lineage.is_contradicted(&fault.what) => {
            give_up(shared, fault);
        }
        Evidence::Mine(fault) => shared.lineage.note_rolled_back(by, fault),
        // Whoever claims what is not so is turned away itself, when it is met the other way round.
        Evidence::Yours(_) => {}
    }
}

fn refuse(shared: &Arc<Shared>, peer: ReplicaSlot, evidence: Evidence) -> TurnedAway {
    let (again, reason) = match evidence {
        Evidence::NotYet => (
            true,
            "one of the two waits until it has met the other members".to_owned(),
        ),
        Evidence::Yours(fault) => (false, fault.of_own()),
        Evidence::Mine(fault) => {
            give_up(shared, fault);
            (false, fault.of_other(shared.slot().0))
        }
    };
    if let Evidence::Yours(fault) = evidence {
        shared.lineage.note_rolled_back(peer, fault);
    }
    TurnedAway {
        again,
        reason,
        evidence: wire::encode(&wire::Grounds::Past(evidence)).into(),
    }
}

/// An earlier start found that this directory was put back.
pub(crate) fn take_up_fault(shared: &Shared) {
    if let Some(fault) = shared.lineage.fault() {
        shared.standing.bar();
        tracing::error!("{}", fault.of_own());
    }
}

/// This directory was put back: from here on nothing is said in its name.
fn give_up(shared: &Arc<Shared>, fault: Fault) {
    shared.standing.bar();
    if !shared.lineage.accept(fault) {
        return;
    }
    tracing::error!("{}", fault.of_own());
    if let Some(endpoint) = shared.endpoint.get() {
        endpoint.end_sessions();
    }
    let shared = shared.clone();
    tokio::spawn(async move {
        // Found out again at the next start if it cannot be kept.
        if let Err(error) = shared.lineage.keep_fault(fault).await {
            tracing::error!(%error, "that this copy was put back cannot be noted");
        }
    });
}

impl Lineage {
    /// What is wrong between this replica and one that introduces itself; it counts as met if nothing is.
    fn judge(&self, peer: Sender, said: &Introduction) -> Option<Evidence> {
        let mut state = self.state();
        let met = state.met.get(&peer.slot).copied();
        let theirs = met.filter(|met| !said.own.contains(met)).map(|met| Fault {
            by: self.slot.0,
            what: Contradiction::Met(met),
        });
        if let Some(fault) = state.fault {
            return Some(Evidence::Mine(fault));
        }
        if let Some(fault) = said.fault.or(theirs) {
            return Some(Evidence::Yours(fault));
        }
        let (by, updates) = (peer.slot.0, Contradiction::Updates(said.applied));
        let contradictions = said.met.map(Contradiction::Met).into_iter();
        let mut contradictions = contradictions.chain([updates]);
        if let Some(what) = contradictions.find(|what| self.contradicts(&state, what)) {
            return Some(Evidence::Mine(Fault { by, what }));
        }
        state.rolled_back.remove(&peer.slot);
        if let Some(awaited) = &mut state.awaited {
            awaited.remove(&peer.slot);
        }
        let mut present = said.own.starts.iter().rev();
        let present = present
            .next()
            .filter(|start| start.incarnation == peer.incarnation.0);
        let Some(present) = present.filter(|_| !said.waits && !self.waits(&mut state)) else {
            return Some(Evidence::NotYet);
        };
        let met = Met {
            incarnation: present.incarnation,
            nonce: present.nonce,
            mark: said.own.mark,
            at_unix_s: unix_seconds(),
        };
        state.met.insert(peer.slot, met);
        None
    }

    /// Whether others know of something that this directory does not have.
    fn contradicts(&self, state: &State, what: &Contradiction) -> bool {
        match what {
            Contradiction::Met(met) => !state.own.contains(met),
            Contradiction::Updates(through) => {
                // No update needs to be where a start began, and none is between the last one before and that.
                match &state.own.starts[..] {
                    [.., earlier, present] => {
                        let had = self.last_update.max(earlier.position);
                        *through > had && *through < present.position
                    }
                    // Where starts before were not noted nobody knows where they began.
                    _ => false,
                }
            }
        }
    }

    fn is_contradicted(&self, what: &Contradiction) -> bool {
        self.contradicts(&self.state(), what)
    }

    /// Whether no session begins yet, because a member that knows more may not have been met.
    fn waits(&self, state: &mut State) -> bool {
        let over = Instant::now() >= self.patience;
        if state
            .awaited
            .as_ref()
            .is_some_and(|awaited| over || awaited.is_empty())
        {
            state.awaited = None;
        }
        state.awaited.is_some()
    }

    fn note_met(&self, member: ReplicaSlot) {
        if let Some(awaited) = &mut self.state().awaited {
            awaited.remove(&member);
        }
    }

    fn note_rolled_back(&self, member: ReplicaSlot, fault: Fault) {
        if self.state().rolled_back.insert(member, fault).is_none() {
            tracing::error!("{}", fault.of_other(member.0));
        }
    }
}

#[cfg(test)]
impl Introduction {
    /// What somebody says with the files of a replica who has met nobody and waits for nobody.
    pub(crate) fn of(lineage: &Lineage) -> Introduction {
        Introduction {
            own: lineage.state().own.clone(),
            waits: false,
            fault: None,
            met: None,
            applied: 0,
        }
    }
}
