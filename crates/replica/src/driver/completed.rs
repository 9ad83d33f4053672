//! Tells peers which files are complete there, because they cannot know it by themselves.

use std::collections::BTreeMap;

use peer::Lane;
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::local_replica::LocalReplica;
use crate::state::wire::{self, Completed, Supplied};

/// At most this many files are listed in one message.
const FILES_AT_ONCE: usize = 1000;

impl LocalReplica {
    /// A peer has acknowledged the last piece of a file: it has all content of the file, and is told so, because it cannot know.
    pub(crate) fn reached_everybody(&self, peer: ReplicaSlot, file: ObjectId) {
        self.engine
            .with_core(|guard| guard.ledger.tell_soon(peer, file));
    }

    /// Tells peers of the files that are complete there.
    pub(crate) fn send_completed(&self) {
        let complete = self.engine.with_core(|guard| guard.ledger.take_complete());
        let mut files_of: BTreeMap<ReplicaSlot, Vec<(ObjectId, u64)>> = BTreeMap::new();
        for ((slot, file), position) in complete {
            files_of.entry(slot).or_default().push((file, position));
        }
        for (slot, all) in files_of {
            for files in all.chunks(FILES_AT_ONCE) {
                let completed = Completed {
                    asked: self.engine.sent_as_asked(slot, files),
                    supplied: self.supplied_to(slot, files),
                    files: files.to_vec(),
                };
                let message = wire::payload(wire::Kind::Completed, &completed);
                self.state.outbound.send(slot, Lane::Metadata, message);
            }
        }
    }

    /// The files with which this replica supplied a peer, and which the peer now has.
    fn supplied_to(&self, peer: ReplicaSlot, files: &[(ObjectId, u64)]) -> Vec<Supplied> {
        let supplied: Vec<Supplied> = {
            let all = self.state.losses.equalling();
            let supplying = all.values().filter_map(|one| one.supplying.as_ref());
            supplying.map(|one| one.to(peer, files)).collect()
        };
        // Checked after that: every file found to be supplied was already due to be sent.
        let supplied = supplied.into_iter().map(|one| Supplied {
            files: self.engine.lacks_none_of(peer, one.files),
            ..one
        });
        supplied.filter(|one| !one.files.is_empty()).collect()
    }

    /// Tells a peer again of the files that are complete there, if it may not know: an earlier report may have been lost with its session, or
    /// dropped.
    pub(crate) fn say_completed_again(&self, peer: ReplicaSlot) {
        self.engine.with_core(|guard| {
            let first = ObjectId::from_u64(0);
            let of_peer = guard.ledger.unconfirmed.range((peer, first)..);
            let untold = of_peer.map(|(entry, _)| *entry);
            let untold = untold.take_while(|(slot, _)| *slot == peer).collect();
            guard.ledger.tell_again(untold);
        });
        self.send_completed();
    }

    /// The same for one file, to all peers.
    pub(crate) fn say_completed_again_of(&self, file: ObjectId) {
        self.engine.with_core(|guard| guard.ledger.tell_of(file));
        self.send_completed();
    }
}
