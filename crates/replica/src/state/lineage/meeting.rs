//! What two replicas say about their pasts when they connect, and the contradictions found.
//!
//! What must never enter: what follows from them (`membership::meeting`).

use peer::Sender;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use vfs::ReplicaSlot;

use super::{Attested, Branch, Contradiction, Fault, Lineage, Mac, Met, State};
use crate::state::time::unix_seconds;

/// What a replica says about itself, and about the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Introduction {
    own: Branch,
    /// Attests the mark of `own`.
    mac: Mac,
    /// It waits until it has met others; no session begins yet.
    waits: bool,
    /// The proof that its directory was restored from an older copy.
    fault: Option<Fault>,
    /// What it has met of the receiver.
    met: Option<Met>,
    /// How far it has applied the receiver's updates.
    applied: u64,
    /// The same as attested by the receiver, if available.
    attested: Option<Attested>,
}

/// What a replica that is turned away is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Evidence {
    /// Nothing is wrong; one of the two waits until it has met others.
    NotYet,
    /// The receiver's directory was restored from an older copy.
    Yours(Fault),
    /// The sender's directory was.
    Mine(Fault),
    /// The receiver claims, without proof, that the sender's directory was.
    Unproven,
}

impl Lineage {
    /// What this replica says about itself to another one, of which it has applied `applied` updates.
    pub(crate) fn introduction(&self, to: ReplicaSlot, applied: u64) -> Introduction {
        let mut state = self.state();
        Introduction {
            waits: self.waits(&mut state),
            own: state.own.clone(),
            fault: state.fault,
            mac: self.attest(&state, state.own.mark).mac,
            met: state.known.met.get(&to).copied(),
            applied,
            attested: state.known.applied.get(&to).copied(),
        }
    }

    /// The contradiction between this replica and one that introduces itself. Without one, the peer counts as met.
    pub(crate) fn judge(&self, peer: Sender, said: &Introduction) -> Option<Evidence> {
        let proven = self.proven_by(peer.slot, said);
        let mut state = self.state();
        let met = state.known.met.get(&peer.slot).copied();
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
        if let Some(fault) = proven {
            return Some(Evidence::Mine(fault));
        }
        if self.is_denied(&state, said) {
            return Some(Evidence::Unproven);
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
            mac: said.mac,
            at_unix_s: unix_seconds(),
        };
        state.known.met.insert(peer.slot, met);
        None
    }

    /// What a replica knows, as attested by this replica, that this directory lacks. Only this replica can have told it.
    pub(crate) fn proven_by(&self, by: ReplicaSlot, said: &Introduction) -> Option<Fault> {
        let met = said.met.map(Contradiction::Met).into_iter();
        let mut known = met.chain(said.attested.map(Contradiction::Updates));
        let what = known.find(|what| self.is_proven(what))?;
        Some(Fault { by: by.0, what })
    }

    /// Whether a statement, attested by this replica, shows that others know something that this directory lacks.
    pub(crate) fn is_proven(&self, what: &Contradiction) -> bool {
        let own_word = match what {
            Contradiction::Met(met) => {
                let start = (met.incarnation, met.nonce);
                met.mac.fits(self.key.mark(self.slot, start, met.mark).mac)
            }
            Contradiction::Updates(through) => {
                let expected = self.key.updates(self.slot, through.number);
                through.mac.fits(expected.mac)
            }
        };
        own_word && self.contradicts(&self.state(), what)
    }

    /// Whether a member claims, with or without proof, to know something that this directory lacks.
    fn is_denied(&self, state: &State, said: &Introduction) -> bool {
        let met = said.met.is_some_and(|met| !state.own.contains(&met));
        met || self.lacks_updates(state, said.applied)
    }

    /// Whether this directory lacks something.
    fn contradicts(&self, state: &State, what: &Contradiction) -> bool {
        match what {
            Contradiction::Met(met) => !state.own.contains(met),
            Contradiction::Updates(through) => self.lacks_updates(state, through.number),
        }
    }

    /// Whether this directory lacks updates of this replica that others have applied, up to this position.
    fn lacks_updates(&self, state: &State, through: u64) -> bool {
        // There may be no update at the beginning of a start, and none between the last one before and that.
        match &state.own.starts[..] {
            [.., earlier, present] => {
                let had = self.last_update.max(earlier.position);
                through > had && through < present.position
            }
            // If earlier starts were not noted, their beginnings are unknown.
            _ => false,
        }
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

    pub(crate) fn note_met(&self, member: ReplicaSlot) {
        if let Some(awaited) = &mut self.state().awaited {
            awaited.remove(&member);
        }
    }

    pub(crate) fn note_rolled_back(&self, member: ReplicaSlot, fault: Fault) {
        if self.state().rolled_back.insert(member, fault).is_none() {
            tracing::error!("{}", fault.of_other(member.0));
        }
    }
}

#[cfg(test)]
impl Introduction {
    /// The introduction of a replica with these files that has met no other replica and waits for none.
    pub(crate) fn of(lineage: &Lineage) -> Introduction {
        let own = lineage.state().own.clone();
        Introduction {
            own,
            mac: lineage.mark().mac,
            waits: false,
            fault: None,
            met: None,
            applied: 0,
            attested: None,
        }
    }

    /// Where the present start began in its stream.
    pub(crate) fn position(&self) -> u64 {
        self.own.starts.last().map_or(0, |start| start.position)
    }

    /// The same, with a forged claim to have met the receiver in a state that it does not have.
    pub(crate) fn inventing(mut self, met: Met) -> Introduction {
        self.met = Some(met);
        self
    }

    /// The same, with a forged claim to have applied this many updates of the receiver.
    pub(crate) fn having_applied(mut self, applied: u64) -> Introduction {
        self.applied = applied;
        self.attested = Some(Attested {
            number: applied,
            mac: Mac::invented(),
        });
        self
    }
}
