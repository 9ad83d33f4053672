//! Messages between replicas: when they arrive, and which function handles them.
//!
//! The handlers explain the meaning of each message.

use super::{Event, Stamp, World, place};
use crate::packet::Packet;
use crate::replica::Content;
use crate::site::Deferred;
use crate::traffic::{Cargo, Sent};
use control::{Message, Moment, Position, ReplicaSlot};
use std::time::Duration;

impl World {
    pub(super) fn send(&mut self, from: ReplicaSlot, to: ReplicaSlot, packet: Packet) {
        if self.links.is_cut(from, to) {
            return;
        }
        if let Some(sent) = &mut self.sent {
            let (at, cargo) = (self.now, Cargo::of(&packet));
            sent.push(Sent {
                at,
                from,
                to,
                cargo,
            });
        }
        if let Packet::Control(envelope) = &packet
            && let Message::Release { name, .. } | Message::Abort { name, .. } = envelope.message
        {
            self.ended.insert(name);
        }
        let lane = packet.lane();
        let at = self
            .links
            .arrival(&mut self.random, self.now, from, to, lane);
        self.arrive(at, from, to, packet);
    }

    fn arrive(&mut self, at: Moment, from: ReplicaSlot, to: ReplicaSlot, packet: Packet) {
        let stamp = self.stamp(from, to);
        self.schedule(
            at,
            Event::Deliver {
                from,
                to,
                packet,
                stamp,
            },
        );
    }

    /// Lets the home of a forwarded operation lose the answer and forward the operation again after a while.
    pub fn forward_again(&mut self, after: Duration, number: u64, to: ReplicaSlot) {
        let from = self.operations[place(number)].home;
        self.arrive(self.now.after(after), from, to, Packet::Forward(number));
    }

    pub(super) fn deliver(
        &mut self,
        from: ReplicaSlot,
        to: ReplicaSlot,
        packet: Packet,
        stamp: Stamp,
    ) {
        let now = self.local(to);
        if self.failures && packet.is_of_stream() && !self.takes_from(to, from, stamp) {
            return;
        }
        let known = self.replicas[&to].site.entered;
        // All members have agreed to continue without this; the sender learns of it.
        let given_up = self.agreed.is_settled(from, known);
        let replica = self.replica(to);
        match packet {
            Packet::Control(envelope) => {
                replica
                    .core
                    .handle_message(now, &replica.tree, from, envelope);
            }
            Packet::Update(position, update) => {
                let applied = replica.applied.get(&from).copied().unwrap_or(0);
                if position > applied {
                    replica.arrived.insert((from, position), update);
                } else {
                    self.send(to, from, Packet::Applied(Position(applied)));
                }
            }
            Packet::Applied(position) => {
                let known = replica.site.acknowledged.entry(from).or_default();
                *known = position.0.max(*known);
                replica
                    .core
                    .handle_applied(now, &replica.tree, from, position);
                self.try_to_renounce(to);
            }
            Packet::Content(_) | Packet::Compare(_) if given_up => {}
            Packet::Content(content) => replica.contents.push((from, content)),
            Packet::Stored(content) => self.note_stored(from, to, content),
            Packet::Compare(content) => self.compare(from, to, content),
            Packet::Lacking(content) => self.send_lacking(from, to, content),
            Packet::Forward(number) => self.begin(to, number),
            Packet::Returned(number) => self.begin(to, number),
            Packet::Finished(number, outcome) => self.finish(to, number, outcome),
            Packet::Question(question) => self.take_question(to, question),
            Packet::Answer(question, answer) => self.take_answer(question, answer),
            packet => self.deliver_of_failures(from, to, packet, stamp),
        }
    }

    /// This content may have been sent before. A replica that has it confirms this once it is stable.
    fn compare(&mut self, from: ReplicaSlot, to: ReplicaSlot, content: Content) {
        let version = self.replicas[&to].tree.version(content.file);
        if version.is_some_and(|version| version >= content.version) {
            self.when_stable(to, Deferred::Send(from, Packet::Stored(content)));
        } else {
            self.send(to, from, Packet::Lacking(content));
        }
    }

    /// A peer lacks the content, unless a newer one is on its way there.
    fn send_lacking(&mut self, from: ReplicaSlot, to: ReplicaSlot, content: Content) {
        let lacking = self.replicas[&to].unshipped.get(&content.file);
        let still = lacking.is_some_and(|(latest, missing)| {
            latest.version == content.version && missing.contains(&from)
        });
        if still {
            self.send(to, from, Packet::Content(content));
        }
    }

    fn note_stored(&mut self, from: ReplicaSlot, to: ReplicaSlot, content: Content) {
        let replica = self.replica(to);
        let Some((latest, missing)) = replica.unshipped.get_mut(&content.file) else {
            return;
        };
        if latest.version == content.version {
            missing.retain(|slot| *slot != from);
            if missing.is_empty() {
                self.note_shipped(to, content);
                self.try_to_renounce(to);
            }
        }
    }
}
