//! What is kept below the lock of the core, beside the core: who has what of this replica's changes, and which changes are under way.
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

/// What became of an operation that had to wait for control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The control is here, or was a moment ago: try again.
    Admitted,
    /// Another replica is primary.
    Elsewhere(ReplicaSlot),
}

/// Where the verdict on such an operation arrives.
pub(crate) type PendingVerdict = oneshot::Receiver<Verdict>;

/// Data of a file is being changed under these controls; they last as long.
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
    /// Files with content that not everybody has.
    pub(crate) files: HashSet<ObjectId>,
}

/// The last files that were looked at, of those that a peer may not know to have and of those that it has in part.
pub(crate) type LookedAt = (
    Option<(ReplicaSlot, ObjectId)>,
    Option<(ReplicaSlot, ObjectId)>,
);

/// What belongs to the core's lock besides the core.
pub(crate) struct Ledger {
    pub(crate) slot: ReplicaSlot,
    pub(crate) pins: HashMap<ObjectId, Pin>,
    /// Files that get a new version with all the data that is here.
    pub(crate) renewing: HashSet<ObjectId>,
    /// Where files were made that not everybody may have heard of.
    pub(crate) births: Births,
    /// Files that were removed here and may be open at other replicas, each behind the place of its removal.
    pub(crate) removed: BTreeSet<(u64, ObjectId)>,
    /// What each peer lacks of file contents.
    pub(crate) unshipped: Unshipped,
    /// Files whose content everybody has; their durable marks can go.
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
    /// The replicas of which a majority is needed, this one among them: those that the view in force is agreed by.
    pub(crate) voters: BTreeSet<ReplicaSlot>,
    /// Files of which a peer has everything and may not know it.
    pub(crate) unconfirmed: BTreeSet<(ReplicaSlot, ObjectId)>,
    /// Files that peers have as far as they are sent from here, and of which they lack data that others made.
    pub(crate) apart: BTreeSet<(ReplicaSlot, ObjectId)>,
    /// Files that peers have asked for since their sessions began, and have not noted yet, with the turns of their last wishes.
    pub(crate) asked: BTreeMap<(ReplicaSlot, ObjectId), u64>,
    /// The last of them that was looked at.
    pub(crate) looked_at: LookedAt,
    /// Those of them that were complete without any content being sent, and up to which place of our stream.
    pub(crate) complete: Vec<(ReplicaSlot, ObjectId, u64)>,
    /// How far the stream of each peer is applied here.
    pub(crate) heard: BTreeMap<ReplicaSlot, u64>,
    /// How far each peer has applied our stream.
    pub(crate) applied: BTreeMap<ReplicaSlot, u64>,
    /// The place of our last update.
    pub(crate) last_position: u64,
    /// When the present configuration of the set came into force here, and the place of our last update then.
    pub(crate) configured_at: Option<(Moment, u64)>,
    pub(crate) verdicts: HashMap<OperationId, oneshot::Sender<Verdict>>,
    operations: u64,
}

impl Ledger {
    /// A new operation, and where the verdict on it will arrive.
    pub(crate) fn begin_operation(&mut self) -> (OperationId, PendingVerdict) {
        self.operations += 1;
        let (sender, receiver) = oneshot::channel();
        let operation = OperationId(self.operations);
        self.verdicts.insert(operation, sender);
        (operation, receiver)
    }

    /// Nobody will ask for it.
    pub(crate) fn abandon(&mut self, operation: OperationId) {
        self.verdicts.remove(&operation);
    }

    pub(crate) fn decide(&mut self, operation: OperationId, verdict: Verdict) {
        if let Some(waiter) = self.verdicts.remove(&operation) {
            // The task that gave up waiting has told the client to come again.
            let _ = waiter.send(verdict);
        }
    }

    pub(crate) fn new(slot: ReplicaSlot, unshipped: Unshipped) -> Ledger {
        Ledger {
            slot,
            pins: HashMap::new(),
            renewing: HashSet::new(),
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
            unconfirmed: BTreeSet::new(),
            apart: BTreeSet::new(),
            asked: BTreeMap::new(),
            looked_at: (None, None),
            complete: Vec::new(),
            heard: BTreeMap::new(),
            applied: BTreeMap::new(),
            last_position: 0,
            configured_at: None,
            verdicts: HashMap::new(),
            operations: 0,
        }
    }

    /// Everybody who takes part has all content of a file. Before a view is known nobody can tell who that is.
    pub(crate) fn note_handed_over(&mut self, file: ObjectId) {
        if let Some(previous) = &mut self.previous
            && !self.active.is_empty()
        {
            previous.files.remove(&file);
        }
    }

    /// Others take part than those to whom it was handed over, and this replica does not: whatever they lack is owed again.
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

    /// Replica 1 was started anew; the near one has got the file that it wrote before, the far one has not.
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
