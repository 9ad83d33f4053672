//! Messages and bytes that a simulated set has sent, counted.
//!
//! A message of replication control is encoded as in `replica`, by postcard, and put into a frame of `peer`, whose
//! length counts. The numbers in its header belong to one session between each two replicas, in which everything
//! sent earlier has arrived. Frames without a message, TLS and TCP do not count. For records, contents and forwarded
//! operations, which the simulation does not make, only the number counts.
//!
//! What must never enter: the work of clients.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use bench::trial::{self, Outcome};
use control::{ControlName, Envelope, Message, ReplicaSlot};
use peer::{Progress, Settings, frame_bytes};
use sim::{Cargo, Sent};
use vfs::ObjectId;

/// The number of an envelope among what replicas say to each other; see `wire` of the crate `replica`.
const CONTROL: u32 = 1;

/// One direction between two replicas.
#[derive(Debug, Default, Clone, Copy)]
struct Direction {
    messages: u64,
    /// The bytes that count against credit.
    cost: u64,
}

/// What was counted so far.
#[derive(Debug, Default)]
pub(super) struct Count {
    directions: BTreeMap<(ReplicaSlot, ReplicaSlot), Direction>,
    /// Every proposal, with the objects that it asked for.
    proposed: BTreeMap<ControlName, Vec<ObjectId>>,
    /// Proposals that replace an earlier one, or stand behind a competitor after an earlier one made way.
    again: BTreeSet<ControlName>,
    released: BTreeSet<ControlName>,
    refused: BTreeSet<ControlName>,
    withdrawn: BTreeSet<ControlName>,
    /// Messages of replication control.
    control: u64,
    /// Only their encoding.
    body_bytes: u64,
    /// Their frames.
    frame_bytes: u64,
    /// Everything else that was sent.
    others: u64,
    forwards: u64,
    /// What the primaries sent, of every kind.
    by_primaries: u64,
    /// The part of it that was replication control, in frames.
    primary_bytes: u64,
}

impl Count {
    /// Counts what was sent while these were the primaries.
    ///
    /// # Errors
    /// Fails when a message cannot be encoded.
    pub(super) fn add(&mut self, sent: &[Sent], primaries: &[ReplicaSlot]) -> Result<()> {
        for one in sent {
            let by_primary = primaries.contains(&one.from);
            self.by_primaries += u64::from(by_primary);
            match &one.cargo {
                Cargo::Control(envelope) => {
                    let bytes = self.encode(one, envelope)?;
                    self.control += 1;
                    self.frame_bytes += bytes;
                    self.primary_bytes += if by_primary { bytes } else { 0 };
                    self.note(&envelope.message);
                }
                Cargo::Forward => {
                    self.forwards += 1;
                    self.others += 1;
                }
                Cargo::Stream | Cargo::Contents | Cargo::Data | Cargo::Other => self.others += 1,
            }
        }
        Ok(())
    }

    /// The length of a message's frame, which is the next one in its direction.
    fn encode(&mut self, sent: &Sent, envelope: &Envelope) -> Result<u64> {
        let body = postcard::to_allocvec(envelope)?;
        self.body_bytes += body.len() as u64;
        let message = peer::Message::new(CONTROL, body);
        let back = (sent.to, sent.from);
        let arrived = self.directions.get(&back).copied().unwrap_or_default();
        let direction = self.directions.entry((sent.from, sent.to)).or_default();
        direction.messages += 1;
        direction.cost += message.cost();
        let progress = Progress {
            sequence: direction.messages,
            acknowledged: arrived.messages,
            credit: Settings::default().control_window_bytes + arrived.cost,
        };
        Ok(frame_bytes(&message, progress) as u64)
    }

    fn note(&mut self, message: &Message) {
        match message {
            Message::Propose {
                proposal, replaces, ..
            } => {
                let objects = proposal.claims.iter().map(|claim| claim.object);
                self.proposed.insert(proposal.name, objects.collect());
                if replaces.is_some() || !proposal.behind.is_empty() {
                    self.again.insert(proposal.name);
                }
                let previous = replaces.map(|number| ControlName {
                    number,
                    ..proposal.name
                });
                self.withdrawn.extend(previous);
            }
            Message::Refuse { name, .. } => drop(self.refused.insert(*name)),
            Message::Abort { name, .. } => drop(self.withdrawn.insert(*name)),
            Message::Release { name, .. } => drop(self.released.insert(*name)),
            _ => {}
        }
    }

    /// The number of proposals that did not ask for this object.
    pub(super) fn proposals_without(&self, object: ObjectId) -> usize {
        let all = self.proposed.values();
        all.filter(|objects| !objects.contains(&object)).count()
    }

    /// The figures of this many updates.
    pub(super) fn figures(&self, updates: u64) -> Outcome {
        let each = |count: u64| count as f64 / updates as f64;
        let of = |names: &BTreeSet<ControlName>| each(names.len() as u64);
        // An object made under shallow control is controlled by its maker without a proposal.
        let is_inherited = |name: &&ControlName| !self.proposed.contains_key(name);
        let inherited = self.released.iter().filter(is_inherited).count();
        let figures = [
            ("updates", updates as f64),
            ("proposals_per_update", each(self.proposed.len() as u64)),
            ("inherited_per_update", each(inherited as u64)),
            ("again_per_update", of(&self.again)),
            ("refused_per_update", of(&self.refused)),
            ("withdrawn_per_update", of(&self.withdrawn)),
            ("messages_per_update", each(self.control)),
            ("bytes_per_update", each(self.frame_bytes)),
            ("body_bytes_per_update", each(self.body_bytes)),
            ("all_messages_per_update", each(self.control + self.others)),
            ("forward_messages_per_update", each(self.forwards)),
            ("primary_messages_per_update", each(self.by_primaries)),
            ("primary_bytes_per_update", each(self.primary_bytes)),
        ];
        trial::named(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Incarnation, Moment};

    fn sent(from: u16, to: u16, message: Message) -> Sent {
        let epoch = control::Epoch(1);
        Sent {
            at: Moment(0),
            from: ReplicaSlot(from),
            to: ReplicaSlot(to),
            cargo: Cargo::Control(Envelope { epoch, message }),
        }
    }

    #[test]
    fn bytes_are_those_of_frames_and_elections_count_once() {
        let name = ControlName {
            holder: ReplicaSlot(1),
            incarnation: Incarnation(1),
            number: 1,
        };
        let floor = 1;
        let mut count = Count::default();
        let aborts = [2, 3].map(|to| sent(1, to, Message::Abort { name, floor }));
        count.add(&aborts, &[ReplicaSlot(1)]).unwrap();
        let ended = sent(2, 1, Message::Ended { name });
        count.add(&[ended], &[ReplicaSlot(1)]).unwrap();
        let figures = count.figures(2);
        assert_eq!(figures["withdrawn_per_update"], 0.5);
        assert_eq!(figures["messages_per_update"], 1.5);
        assert_eq!(figures["primary_messages_per_update"], 1.0);
        // Epoch, kind of message, name (3), and for an abort the floor.
        assert_eq!(figures["body_bytes_per_update"], (6.0 + 6.0 + 5.0) / 2.0);
        // Prefix 12, sequence 2, credit 5, role 2, kind 2, body 2; an acknowledgement is sent as soon as
        // there is a message to send.
        let frames = 2.0 * (25.0 + 6.0) + (25.0 + 2.0 + 5.0);
        assert_eq!(figures["bytes_per_update"], frames / 2.0);
    }
}
