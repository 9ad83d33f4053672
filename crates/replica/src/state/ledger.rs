//! What the lock of the core protects besides the core: which replica has what of this replica's changes, and which changes are under way.
//!
//! What must never enter: the core itself, and anything that waits.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use control::{ControlName, Moment, OperationId};
use tokio::sync::oneshot;
use vfs::{ObjectId, ReplicaSlot};

use crate::state::ages::Ages;
use crate::state::births::Births;
use crate::state::durability::KnownDurability;
use crate::state::read_past::ReadPast;
use crate::state::shipping::Unshipped;

/// The verdict on an operation that had to wait for control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The control is here, or was a moment ago: try again.
    Admitted,
    /// Another replica is primary.
    Elsewhere(ReplicaSlot),
}

/// The receiver for that verdict.
pub(crate) type PendingVerdict = oneshot::Receiver<Verdict>;

/// Data of a file is being changed under these controls, which last until the change is done.
#[derive(Debug, Default)]
pub(crate) struct Pin {
    /// One entry for each operation and control.
    pub(crate) under: Vec<ControlName>,
    /// The last update of the file made meanwhile.
    pub(crate) position: u64,
    /// Sizes to which the file is being cut.
    pub(crate) cuts: Vec<u64>,
}

/// What earlier incarnations of this replica left unfinished.
#[derive(Debug)]
pub(crate) struct Previous {
    /// Their last update.
    pub(crate) position: u64,
    /// Files with content that some replica may lack.
    pub(crate) files: HashSet<ObjectId>,
}

/// The last checked files: of those that a peer may not know to have, and of those that it has in part.
pub(crate) type LookedAt = (
    Option<(ReplicaSlot, ObjectId)>,
    Option<(ReplicaSlot, ObjectId)>,
);

/// Everything besides the core that the core's lock protects.
pub(crate) struct Ledger {
    pub(crate) slot: ReplicaSlot,
    pub(crate) pins: HashMap<ObjectId, Pin>,
    /// Files that get a new version with all the data that is here, with the number of attempts under way.
    pub(crate) renewing: HashMap<ObjectId, usize>,
    /// Where files were made that some replica may not know yet.
    pub(crate) births: Births,
    /// Files that were removed here and may be open at other replicas, each with the place of its removal.
    pub(crate) removed: BTreeSet<(u64, ObjectId)>,
    /// What each peer lacks of file contents.
    pub(crate) unshipped: Unshipped,
    /// Files whose content all replicas have; their durable marks can go.
    pub(crate) shipped: HashSet<ObjectId>,
    pub(crate) previous: Option<Previous>,
    pub(crate) durability: KnownDurability,
    /// Since when controls are acknowledged here.
    pub(crate) ages: Ages,
    /// Controls of others under which clients may still be reading past this replica.
    pub(crate) read_past: ReadPast,
    /// The replicas that take part in the view in force, and members that hold no contents.
    pub(crate) active: BTreeSet<ReplicaSlot>,
    pub(crate) witnesses: BTreeSet<ReplicaSlot>,
    /// The replicas that agree on the view in force, including this one: a majority is counted over them.
    pub(crate) voters: BTreeSet<ReplicaSlot>,
    /// Files of which a peer has everything and may not know it, and the place of this replica's stream up to which it has to note that.
    pub(crate) unconfirmed: BTreeMap<(ReplicaSlot, ObjectId), u64>,
    /// Files that were cut or made longer while a peer lacked something of them, and the place of the last such update: a piece that was taken before does
    /// not make them complete.
    pub(crate) resized: BTreeMap<ObjectId, u64>,
    /// Files that peers have as far as this replica sends them, but in which they lack data of other replicas.
    pub(crate) apart: BTreeSet<(ReplicaSlot, ObjectId)>,
    /// Files that peers have asked for since their sessions began, and have not noted yet, with the turns of their last requests.
    pub(crate) asked: BTreeMap<(ReplicaSlot, ObjectId), u64>,
    /// The last checked entries of `unconfirmed` and `apart`.
    pub(crate) looked_at: LookedAt,
    /// Files that are complete at a peer, and up to which place of this replica's stream. The peer is told once it has applied that
    /// (counterexample 82).
    pub(crate) complete: BTreeMap<(ReplicaSlot, ObjectId), u64>,
    /// How far the stream of each peer is applied here.
    pub(crate) heard: BTreeMap<ReplicaSlot, u64>,
    /// How far each peer has applied this replica's stream.
    pub(crate) applied: BTreeMap<ReplicaSlot, u64>,
    /// The place of this replica's last update.
    pub(crate) last_position: u64,
    /// The same when this incarnation began. The positions that the previous incarnation had reserved and not used lie before it.
    pub(crate) began_at: u64,
    /// When the present configuration of the set came into force here, and the place of this replica's last update then.
    pub(crate) configured_at: Option<(Moment, u64)>,
    pub(crate) verdicts: HashMap<OperationId, oneshot::Sender<Verdict>>,
    operations: u64,
}

impl Ledger {
    /// A new operation, and the receiver for its verdict.
    pub(crate) fn begin_operation(&mut self) -> (OperationId, PendingVerdict) {
        self.operations += 1;
        let (sender, receiver) = oneshot::channel();
        let operation = OperationId(self.operations);
        self.verdicts.insert(operation, sender);
        (operation, receiver)
    }

    /// Nothing will ask for its verdict.
    pub(crate) fn abandon(&mut self, operation: OperationId) {
        self.verdicts.remove(&operation);
    }

    pub(crate) fn decide(&mut self, operation: OperationId, verdict: Verdict) {
        if let Some(waiter) = self.verdicts.remove(&operation) {
            // If the waiting task has given up, it has told the client to try again.
            let _ = waiter.send(verdict);
        }
    }

    pub(crate) fn new(slot: ReplicaSlot, unshipped: Unshipped) -> Ledger {
        Ledger {
            slot,
            pins: HashMap::new(),
            renewing: HashMap::new(),
            births: Births::default(),
            removed: BTreeSet::new(),
            unshipped,
            shipped: HashSet::new(),
            previous: None,
            durability: KnownDurability::default(),
            ages: Ages::default(),
            read_past: ReadPast::new(slot),
            active: BTreeSet::new(),
            witnesses: BTreeSet::new(),
            voters: BTreeSet::new(),
            unconfirmed: BTreeMap::new(),
            resized: BTreeMap::new(),
            apart: BTreeSet::new(),
            asked: BTreeMap::new(),
            looked_at: (None, None),
            complete: BTreeMap::new(),
            heard: BTreeMap::new(),
            applied: BTreeMap::new(),
            last_position: 0,
            began_at: 0,
            configured_at: None,
            verdicts: HashMap::new(),
            operations: 0,
        }
    }

    /// All replicas that take part have all content of a file. Before a view is known, that set is unknown.
    pub(crate) fn note_handed_over(&mut self, file: ObjectId) {
        if let Some(previous) = &mut self.previous
            && !self.active.is_empty()
        {
            previous.files.remove(&file);
        }
    }

    /// Other replicas take part now than those that got the file, and this replica takes no part: whatever they lack is owed again.
    pub(crate) fn take_up_again(&mut self) {
        let active = &self.active;
        let backlogs = self.unshipped.peers();
        let theirs = backlogs.filter(|(slot, _)| active.contains(slot));
        let files = theirs.flat_map(|(_, backlog)| backlog.lacking());
        let files = files.collect();
        let position = self.last_position;
        self.previous.get_or_insert(Previous { position, files });
    }
}

#[cfg(test)]
mod tests {
    use control::{Moment, Position};

    use super::*;
    use crate::state::shipping::Settings;

    const FILE: ObjectId = ObjectId::from_u64(7);
    const NEAR: ReplicaSlot = ReplicaSlot(2);
    const FAR: ReplicaSlot = ReplicaSlot(3);

    /// Replica 1 was restarted; the near replica has the file that it wrote before, the far one lacks it.
    fn ledger() -> Ledger {
        let mut unshipped = Unshipped::new(Settings::default());
        unshipped.add_peer(NEAR);
        unshipped.add_peer(FAR);
        unshipped.changed(Moment(0), FILE, 0..10, Position(1));
        let backlog = unshipped.peer(NEAR).unwrap();
        let piece = backlog.next(Moment(u64::MAX)).unwrap();
        assert_eq!(backlog.acknowledged(piece.id), Some(FILE));
        let mut ledger = Ledger::new(ReplicaSlot(1), unshipped);
        (ledger.last_position, ledger.previous) = (1, None);
        ledger
    }

    #[test]
    fn nothing_is_handed_over_to_all_before_it_is_known_who_takes_part() {
        let mut ledger = ledger();
        let (position, files) = (1, [FILE].into());
        ledger.previous = Some(Previous { position, files });
        assert!(ledger.complete_at_active(FILE), "nobody is known");
        ledger.note_handed_over(FILE);
        ledger.active = [NEAR, FAR].into();
        let previous = ledger.previous.as_ref().unwrap();
        assert!(previous.files.contains(&FILE));
    }

    #[test]
    fn what_others_lack_who_take_part_now_is_owed_again() {
        let mut ledger = ledger();
        ledger.active = [NEAR, FAR].into();
        ledger.take_up_again();
        let previous = ledger.previous.take().unwrap();
        assert_eq!((previous.position, previous.files), (1, [FILE].into()));
        ledger.active = [NEAR].into();
        ledger.take_up_again();
        assert!(ledger.previous.unwrap().files.is_empty());
    }
}
