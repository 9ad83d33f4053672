//! Connections that are lost and renewed, and the messages that are repeated on them.
//!
//! Message losses are drawn here; the cores know which messages are unanswered.

use super::{Event, Stamp, World, place};
use crate::network::Lane;
use crate::packet::Packet;
use control::{Moment, Position, ReplicaSlot};

impl World {
    pub(super) fn others(&self, slot: ReplicaSlot) -> Vec<ReplicaSlot> {
        let view = self.replicas[&slot].core.view();
        let others = view.active.iter().filter(|other| **other != slot);
        let present = others.filter(|other| self.replicas.contains_key(other));
        present.copied().collect()
    }

    /// Messages between the two are lost, kept or duplicated. Then each side repeats what the other
    /// has not confirmed. Forwarded operations use reliable calls and stay.
    pub(super) fn take_reconnect(&mut self, one: ReplicaSlot, other: ReplicaSlot) {
        let between = |event: &Event| match event {
            Event::Deliver {
                from, to, packet, ..
            } => {
                let ends = (*from, *to);
                (ends == (one, other) || ends == (other, one)) && packet.lane() != Lane::Forward
            }
            _ => false,
        };
        let under_way = self.events.iter().filter(|(_, event)| between(event));
        let under_way: Vec<_> = under_way
            .map(|(key, event)| (*key, event.clone()))
            .collect();
        for ((at, sequence), event) in under_way {
            match self.random.below(3) {
                0 => drop(self.events.remove(&(at, sequence))),
                1 => {
                    let late = self.random.below(200_000);
                    self.schedule(Moment(at.0 + late), event);
                }
                _ => {}
            }
        }
        for (from, to) in [(one, other), (other, one)] {
            if !self.replica(from).site.up {
                continue;
            }
            self.say_again(from, to);
            self.settle(from);
        }
    }

    pub(super) fn say_again(&mut self, from: ReplicaSlot, to: ReplicaSlot) {
        let now = self.local(from);
        let already = self.replica(to).applied.get(&from).copied().unwrap_or(0);
        let replica = self.replica(from);
        replica.core.handle_connected(now, &replica.tree, to);
        if self.replicas[&from].site.cut {
            // What it has may have been given up. In that case it discards it before it reports anything.
            return;
        }
        let shippable = if self.failures && self.model.ship_when_stable {
            place(self.replicas[&from].site.stable_head(from))
        } else {
            usize::MAX
        };
        let compared = self.model.versions_are_compared;
        let replica = self.replica(from);
        let stream = replica.stream.iter().take(shippable);
        let missing = stream.enumerate().skip(place(already));
        let mut packets: Vec<Packet> = missing
            .map(|(index, update)| Packet::Update(index as u64 + 1, update.clone()))
            .collect();
        let unshipped = replica.unshipped.values();
        let contents = unshipped.filter(|(_, missing)| missing.contains(&to));
        packets.extend(contents.map(|(content, _)| match compared {
            true => Packet::Compare(*content),
            false => Packet::Content(*content),
        }));
        let theirs = replica.applied.get(&to).copied().unwrap_or(0);
        packets.push(Packet::Applied(Position(theirs)));
        for packet in packets {
            self.send(from, to, packet);
        }
    }

    /// The incarnations between which a message sent now travels.
    pub(super) fn stamp(&self, from: ReplicaSlot, to: ReplicaSlot) -> Stamp {
        let life = |slot| {
            let replica = self.replicas.get(&slot);
            replica.map_or(0, |replica| replica.site.incarnation)
        };
        Stamp {
            from: life(from),
            to: life(to),
            entered: self.replicas[&from].site.entered,
            learnt: self.replicas[&from].site.learnt,
        }
    }

    /// Whether a message still arrives. Its receiver must run; unless the message outlives its receiver, neither side may have been restarted.
    pub(super) fn arrives(
        &self,
        from: ReplicaSlot,
        to: ReplicaSlot,
        packet: &Packet,
        stamp: Stamp,
    ) -> bool {
        let (sender, receiver) = (&self.replicas[&from].site, &self.replicas[&to].site);
        let now = self.stamp(from, to);
        let meant = now.to == stamp.to && (now.from == stamp.from || !sender.up);
        receiver.up && (meant || packet.outlives_receiver())
    }
}
