//! The backlogs of all peers, and what they say together about a file.
//!
//! What must never enter: whether an answer to a client waits for a peer.

use super::backlog::{Backlog, Settings};
use control::{Moment, Position};
use std::collections::BTreeMap;
use std::ops::Range;
use vfs::{ObjectId, ReplicaSlot};

/// Which peers lack which file contents. Every change is noted for all peers, connected or not. A peer that stays away costs memory by the number of
/// changed files, not by their contents, until it is given up.
#[derive(Debug)]
pub struct Unshipped {
    settings: Settings,
    peers: BTreeMap<ReplicaSlot, Backlog>,
}

impl Unshipped {
    /// Without peers.
    #[must_use]
    pub fn new(settings: Settings) -> Unshipped {
        Unshipped {
            settings,
            peers: BTreeMap::new(),
        }
    }

    /// From now on the backlog of `peer` gets every change. A new peer lacks nothing; a known peer keeps its backlog.
    pub fn add_peer(&mut self, peer: ReplicaSlot) -> &mut Backlog {
        let settings = &self.settings;
        let fresh = || Backlog::new(settings.clone());
        self.peers.entry(peer).or_insert_with(fresh)
    }

    /// `peer` is a witness, which gets no contents; a known peer keeps its backlog.
    pub fn add_witness(&mut self, peer: ReplicaSlot) {
        let fresh = || Backlog::of_witness(self.settings.clone());
        self.peers.entry(peer).or_insert_with(fresh);
    }

    /// `peer` has left the set. Returns the files that no other peer lacks.
    pub fn remove_peer(&mut self, peer: ReplicaSlot) -> Vec<ObjectId> {
        let backlog = self.peers.remove(&peer);
        let lacking = backlog.iter().flat_map(Backlog::lacking);
        lacking
            .filter(|&file| self.complete_everywhere(file))
            .collect()
    }

    /// Notes nothing more for `peer`, which takes a whole copy when it is back. Returns the files that no other peer lacks.
    pub fn give_up(&mut self, peer: ReplicaSlot) -> Vec<ObjectId> {
        let files = self.peers.get_mut(&peer).map(Backlog::give_up);
        let files = files.unwrap_or_default().into_iter();
        files
            .filter(|&file| self.complete_everywhere(file))
            .collect()
    }

    /// The backlog of one peer.
    pub fn peer(&mut self, peer: ReplicaSlot) -> Option<&mut Backlog> {
        self.peers.get_mut(&peer)
    }

    /// What one peer lacks; `None` for an unknown peer.
    #[must_use]
    pub fn backlog(&self, peer: ReplicaSlot) -> Option<&Backlog> {
        self.peers.get(&peer)
    }

    /// The peers and their backlogs.
    pub fn peers(&self) -> impl Iterator<Item = (ReplicaSlot, &Backlog)> {
        self.peers.iter().map(|(&peer, backlog)| (peer, backlog))
    }

    /// [`Backlog::changed`] for every peer.
    pub fn changed(&mut self, now: Moment, file: ObjectId, range: Range<u64>, follows: Position) {
        for backlog in self.peers.values_mut() {
            backlog.changed(now, file, range.clone(), follows);
        }
    }

    /// [`Backlog::suspected`] for every peer.
    pub fn suspected(&mut self, now: Moment, file: ObjectId, follows: Position) {
        for backlog in self.peers.values_mut() {
            backlog.suspected(now, file, follows);
        }
    }

    /// [`Backlog::cut`] for every peer.
    pub fn cut(&mut self, file: ObjectId, size: u64, follows: Position) {
        for backlog in self.peers.values_mut() {
            backlog.cut(file, size, follows);
        }
    }

    /// [`Backlog::removed`] for every peer.
    pub fn removed(&mut self, file: ObjectId) {
        for backlog in self.peers.values_mut() {
            backlog.removed(file);
        }
    }

    /// [`Backlog::removed`] for every peer to which nothing of `file` is owed.
    pub fn owed_only(&mut self, file: ObjectId) {
        for backlog in self.peers.values_mut() {
            if !backlog.owes(file) {
                backlog.removed(file);
            }
        }
    }

    /// [`Backlog::expedite`] for every peer.
    pub fn expedite(&mut self, now: Moment, file: ObjectId) {
        for backlog in self.peers.values_mut() {
            backlog.expedite(now, file);
        }
    }

    /// [`Backlog::expedite_much`] for every peer. Returns whether any contents stop resting.
    pub fn expedite_much(&mut self, now: Moment, file: ObjectId) -> bool {
        let mut any = false;
        for backlog in self.peers.values_mut() {
            any |= backlog.expedite_much(now, file);
        }
        any
    }

    /// [`Backlog::expedite_all`] for every peer.
    pub fn expedite_all(&mut self, now: Moment) {
        for backlog in self.peers.values_mut() {
            backlog.expedite_all(now);
        }
    }

    /// The peers that lack something of `file`.
    pub fn lacking(&self, file: ObjectId) -> impl Iterator<Item = ReplicaSlot> {
        let lacking = self.peers().filter(move |(_, backlog)| backlog.lacks(file));
        lacking.map(|(peer, _)| peer)
    }

    /// Whether every peer has all of `file`.
    #[must_use]
    pub fn complete_everywhere(&self, file: ObjectId) -> bool {
        self.lacking(file).next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ObjectId = ObjectId::from_u64(7);

    fn deliver(unshipped: &mut Unshipped, peer: ReplicaSlot) -> Option<ObjectId> {
        let backlog = unshipped.peer(peer).unwrap();
        let piece = backlog.next(Moment(u64::MAX)).unwrap();
        backlog.acknowledged(piece.id)
    }

    #[test]
    fn a_file_is_complete_everywhere_when_the_last_peer_has_it() {
        let mut unshipped = Unshipped::new(Settings::default());
        let [a, b] = [ReplicaSlot(2), ReplicaSlot(3)];
        unshipped.add_peer(a);
        unshipped.add_peer(b);
        unshipped.changed(Moment(0), FILE, 0..10, Position(1));
        assert_eq!(unshipped.lacking(FILE).collect::<Vec<_>>(), [a, b]);

        assert_eq!(deliver(&mut unshipped, a), Some(FILE));
        assert_eq!(unshipped.lacking(FILE).collect::<Vec<_>>(), [b]);
        assert!(!unshipped.complete_everywhere(FILE));

        assert_eq!(deliver(&mut unshipped, b), Some(FILE));
        assert!(unshipped.complete_everywhere(FILE));
    }

    #[test]
    fn a_witness_lacks_no_contents_and_holds_none() {
        let mut unshipped = Unshipped::new(Settings::default());
        let [a, witness] = [ReplicaSlot(2), ReplicaSlot(3)];
        unshipped.add_peer(a);
        unshipped.add_witness(witness);
        unshipped.changed(Moment(0), FILE, 0..10, Position(1));
        unshipped.expedite_all(Moment(0));
        assert_eq!(unshipped.lacking(FILE).collect::<Vec<_>>(), [a]);
        let backlog = unshipped.peer(witness).unwrap();
        assert_eq!(backlog.next(Moment(u64::MAX)), None);
        assert!(!backlog.keeps_contents(), "nobody counts on it");
        assert_eq!(deliver(&mut unshipped, a), Some(FILE));
        assert!(unshipped.complete_everywhere(FILE));
    }

    #[test]
    fn a_peer_that_leaves_the_set_holds_up_nothing() {
        let mut unshipped = Unshipped::new(Settings::default());
        let [a, b] = [ReplicaSlot(2), ReplicaSlot(3)];
        let other = ObjectId::from_u64(8);
        unshipped.add_peer(a);
        unshipped.changed(Moment(0), FILE, 0..10, Position(1));
        unshipped.add_peer(b);
        unshipped.changed(Moment(0), other, 0..10, Position(2));
        assert_eq!(unshipped.remove_peer(a), [FILE]);
        assert!(unshipped.complete_everywhere(FILE));
        assert_eq!(unshipped.lacking(other).collect::<Vec<_>>(), [b]);
    }
}
