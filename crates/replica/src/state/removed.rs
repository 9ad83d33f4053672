//! What is known of removed files that clients of other replicas may have open.
//!
//! What must never enter: until when a file is kept (`replication::removed`).

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use vfs::{ObjectId, ReplicaSlot};

use crate::state::locks::{Table, TableGuard};
use crate::state::wire::HeldOpen;

/// What is known of one peer's opens.
#[derive(Debug, Default)]
struct Peer {
    /// The version of its last report in this session; 0 before the first one.
    told: u64,
    /// The version that its acknowledgement asks for.
    needed: u64,
    held: HashSet<ObjectId>,
    /// Since when it takes no part.
    away: Option<Instant>,
}

/// What is known of all others, and which homes have failed.
#[derive(Default)]
pub(crate) struct Removed(Table<State>);

#[derive(Default)]
struct State {
    peers: BTreeMap<ReplicaSlot, Peer>,
    /// Files whose home was lost, or no longer has them: only the local copy is left here.
    alone: HashSet<ObjectId>,
}

/// Where an operation on a removed file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To the local copy.
    Here,
    /// To the home.
    At(ReplicaSlot),
}

impl Removed {
    fn state(&self) -> TableGuard<'_, State> {
        self.0.lock()
    }

    /// A session with a peer begins, perhaps with another incarnation: what it keeps is unknown until its report.
    pub(crate) fn begin(&self, peer: ReplicaSlot) {
        let mut state = self.state();
        let known = state.peers.entry(peer).or_default();
        (known.told, known.needed) = (0, 0);
    }

    /// A peer's acknowledgement counts only together with this report.
    pub(crate) fn need(&self, peer: ReplicaSlot, version: u64) {
        let mut state = self.state();
        let known = state.peers.entry(peer).or_default();
        known.needed = known.needed.max(version);
    }

    /// A peer reports what it keeps.
    pub(crate) fn hear(&self, peer: ReplicaSlot, held: HeldOpen) {
        let mut state = self.state();
        let known = state.peers.entry(peer).or_default();
        if held.version > known.told {
            known.told = held.version;
            known.held = held.files.into_iter().collect();
        }
    }

    /// The home of a removed file is lost, or no longer has it.
    pub(crate) fn go_on_alone(&self, file: ObjectId) {
        self.state().alone.insert(file);
    }

    /// Forgets files that no longer exist.
    pub(crate) fn forget_gone(&self, has: impl Fn(ObjectId) -> bool) {
        self.state().alone.retain(|file| has(*file));
    }

    pub(crate) fn is_alone(&self, file: ObjectId) -> bool {
        self.state().alone.contains(&file)
    }

    /// Up to which place every counted peer has reported on removals, and which files must be kept.
    pub(crate) fn judged(
        &self,
        applied: &BTreeMap<ReplicaSlot, Counted>,
        lease: Duration,
    ) -> (u64, HashSet<ObjectId>) {
        let now = Instant::now();
        let mut state = self.state();
        state.peers.retain(|slot, _| applied.contains_key(slot));
        let (mut through, mut kept) = (u64::MAX, HashSet::new());
        for (slot, counted) in applied {
            let peer = state.peers.entry(*slot).or_default();
            if counted.is_active {
                peer.away = None;
            } else if now.duration_since(*peer.away.get_or_insert(now)) > lease {
                continue;
            }
            let has_told = peer.told > 0 && peer.told >= peer.needed;
            through = through.min(if has_told { counted.applied } else { 0 });
            kept.extend(&peer.held);
        }
        (through, kept)
    }
}

/// A peer whose clients may have removed files open.
pub(crate) struct Counted {
    pub(crate) applied: u64,
    pub(crate) is_active: bool,
}
