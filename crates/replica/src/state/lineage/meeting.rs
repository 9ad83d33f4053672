//! What two replicas say of their pasts when they connect, and what is wrong between them.
//!
//! What must never enter: what is done about it (`membership::meeting`).

use peer::Sender;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use vfs::ReplicaSlot;

use super::{Attested, Branch, Contradiction, Fault, Lineage, Mac, Met, State};
use crate::state::time::unix_seconds;

/// What a replica says of itself, and of the one it says it to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Introduction {
    own: Branch,
    /// Attests the mark of that.
    mac: Mac,
    /// It waits until it has met others; no session begins yet.
    waits: bool,
    /// What proves that its directory was put back.
    fault: Option<Fault>,
    /// What it has met of the receiver.
    met: Option<Met>,
    /// How far it has applied the receiver's updates.
    applied: u64,
    /// The same in the receiver's own word, as far as it has that.
    attested: Option<Attested>,
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
    /// The receiver says that the sender's was, and has no proof.
    Unproven,
}

impl Lineage {
    /// What this replica says of itself to another one, of which it has applied `applied` updates.
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

    /// What is wrong between this replica and one that introduces itself; it counts as met if nothing is.
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

    /// What a replica knows that this directory does not have, though it was said in its name. A
    /// replica that shows that has it from here.
    pub(crate) fn proven_by(&self, by: ReplicaSlot, said: &Introduction) -> Option<Fault> {
        let met = said.met.map(Contradiction::Met).into_iter();
        let mut known = met.chain(said.attested.map(Contradiction::Updates));
        let what = known.find(|what| self.is_proven(what))?;
        Some(Fault { by: by.0, what })
    }

    /// Whether others know of something, by this replica's own word, that this directory does not have.
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

    /// Whether a member claims to know of something that this directory does not have, proven or not.
    fn is_denied(&self, state: &State, said: &Introduction) -> bool {
        let met = said.met.is_some_and(|met| !state.own.contains(&met));
        met || self.lacks_updates(state, said.applied)
    }

    /// Whether something is not in this directory.
    fn contradicts(&self, state: &State, what: &Contradiction) -> bool {
        match what {
            Contradiction::Met(met) => !state.own.contains(met),
            Contradiction::Updates(through) => self.lacks_updates(state, through.number),
        }
    }

    /// Whether own updates that others have applied, up to this position, are not in this directory.
    fn lacks_updates(&self, state: &State, through: u64) -> bool {
        // No update needs to be where a start began, and none is between the last one before and that.
        match &state.own.starts[..] {
            [.., earlier, present] => {
                let had = self.last_update.max(earlier.position);
                through > had && through < present.position
            }
            // Where starts before were not noted nobody knows where they began.
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
    /// What somebody says with the files of a replica who has met nobody and waits for nobody.
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

    /// The same by somebody who invents that the receiver was met in a state that it does not have.
    pub(crate) fn inventing(mut self, met: Met) -> Introduction {
        self.met = Some(met);
        self
    }

    /// The same by somebody who invents that it has applied this many updates of the receiver.
    pub(crate) fn having_applied(mut self, applied: u64) -> Introduction {
        self.applied = applied;
        self.attested = Some(Attested {
            number: applied,
            mac: Mac::invented(),
        });
        self
    }
}
