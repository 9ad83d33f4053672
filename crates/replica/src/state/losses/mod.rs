//! What is known here of lost replicas: which replica has how much of their data.
//!
//! `verdict` finds the survivor with the best copy of a file, `awareness` the replicas that answer with today's durability.
//!
//! What must never enter: what the survivors do about it (`membership::losses`).

mod awareness;
mod closing;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::{Duration, Instant};
use vfs::{ObjectId, ReplicaSlot};

use crate::state::locks::{Table, TableGuard};
use crate::state::wire::Supplied;
use awareness::Awareness;
pub(crate) use verdict::{Best, Lacks, OfMembers, Quality, Reports, Told, best, lacking};

/// What is known here of lost replicas.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Settlements that have taken effect here.
    settled: Table<BTreeSet<u64>>,
    equalling: Table<BTreeMap<ReplicaSlot, Equalling>>,
    awareness: Table<Awareness>,
    pub(crate) closing: closing::Closing,
}

impl Losses {
    /// Notes that a settlement takes effect here; false if it already had.
    pub(crate) fn settles_now(&self, id: u64) -> bool {
        self.settled.lock().insert(id)
    }

    /// Forgets everything about a replica that has left the set.
    pub(crate) fn forget(&self, slot: ReplicaSlot) {
        self.equalling().remove(&slot);
        self.awareness().forget(slot);
    }

    /// Which replicas answer with today's durability.
    pub(crate) fn awareness(&self) -> TableGuard<'_, Awareness> {
        self.awareness.lock()
    }

    /// A change begins that may bring something under `majority`. It is over when the returned value is dropped; its effect must be noted before
    /// that.
    pub(crate) fn undecided(&self) -> Undecided<'_> {
        self.awareness().undecided();
        Undecided(self)
    }

    pub(crate) fn equalling(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, Equalling>> {
        self.equalling.lock()
    }
}

/// While this lives, no replica is known to answer with today's durability.
pub(crate) struct Undecided<'a>(&'a Losses);

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        self.0.awareness().decided();
    }
}

/// Bringing contents of one lost replica level.
#[derive(Debug, Default)]
pub(crate) struct Equalling {
    pub(crate) applied: u64,
    /// The lost replica's stream was already closed when this replica looked for missing data.
    pub(crate) closed: bool,
    pub(crate) said: Option<Instant>,
    pub(crate) pause: Duration,
    /// The reported data that was missing here when all survivors were level.
    pub(crate) own: Lacks,
    /// The reported members' data that is missing here, of files that are incomplete on some survivor.
    pub(crate) own_of_members: OfMembers,
    pub(crate) reports: BTreeMap<ReplicaSlot, Report>,
    /// The files that this replica supplies to others, once the best copy of each file is known.
    pub(crate) supplying: Option<Supplying>,
    /// No report has come since `supplying` was computed.
    pub(crate) has_looked: bool,
    /// Replicas that have taken part only since after the loss.
    pub(crate) late: BTreeSet<ReplicaSlot>,
    /// The replica that supplied this one with each file since then.
    pub(crate) sent: BTreeMap<ObjectId, ReplicaSlot>,
    /// Files that are complete nowhere, and the same here as in the best copy.
    pub(crate) level: BTreeSet<ObjectId>,
    pub(crate) whole: bool,
}

/// What a replica with the best copy of files supplies to others.
#[derive(Debug)]
pub(crate) struct Supplying {
    /// The epoch in which this was computed.
    pub(crate) epoch: u64,
    /// The lost replicas whose streams were closed here when this replica looked for missing data.
    pub(crate) closed: Vec<u16>,
    pub(crate) files: BTreeMap<ObjectId, BTreeSet<ReplicaSlot>>,
}

impl Supplying {
    /// The part of these files that goes to a peer.
    pub(crate) fn to(&self, peer: ReplicaSlot, files: &[(ObjectId, u64)]) -> Supplied {
        let goes = |file: &ObjectId| self.files.get(file).is_some_and(|to| to.contains(&peer));
        let files = files.iter().map(|(file, _)| *file);
        Supplied {
            epoch: self.epoch,
            closed: self.closed.clone(),
            files: files.filter(goes).collect(),
        }
    }
}

/// What another survivor lacks.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) applied: u64,
    /// The stream was closed there.
    pub(crate) closed: bool,
    pub(crate) files: Lacks,
    /// What it lacks of members' data.
    pub(crate) of_members: OfMembers,
    pub(crate) complete: bool,
}

impl Equalling {
    /// Whether this replica supplies a peer with a file although it lacks some of it.
    pub(crate) fn supplies_in_part(&self, to: ReplicaSlot, file: ObjectId) -> bool {
        let supplied = self.supplying.as_ref();
        let receivers = supplied.and_then(|supplying| supplying.files.get(&file));
        self.lacks_some_of(file) && receivers.is_some_and(|receivers| receivers.contains(&to))
    }

    /// Whether this replica has reported that it lacks some of a file.
    fn lacks_some_of(&self, file: ObjectId) -> bool {
        let of_file = (file, ReplicaSlot(0))..=(file, ReplicaSlot(u16::MAX));
        self.own.contains_key(&file) || self.own_of_members.range(of_file).next().is_some()
    }

    /// The files that lack something on some survivor, by the reports so far.
    pub(crate) fn in_question(&self) -> BTreeSet<ObjectId> {
        let told = self.reports.values().map(|report| &report.files);
        let all = told.chain([&self.own]).flat_map(Lacks::keys);
        all.copied().collect()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    /// What all survivors lack, once all have reported. If the stream is closed here, only reports made after it was closed there count.
    fn told(&self, own: ReplicaSlot, others: &[ReplicaSlot]) -> Option<Reports<'_>> {
        let others = others.iter().map(|slot| {
            let report = self.reports.get(slot)?;
            let closed = report.closed || !self.closed;
            let counts = report.complete && report.applied == self.applied && closed;
            counts.then_some((*slot, &report.files))
        });
        let lacks: Option<_> = others.chain([Some((own, &self.own))]).collect();
        let of_members = self.reports.iter();
        let of_members = of_members.map(|(slot, report)| (*slot, &report.of_members));
        Some(Reports {
            lacks: lacks?,
            of_members: of_members.chain([(own, &self.own_of_members)]).collect(),
            late: self.late.clone(),
        })
    }
}

/// The same for all lost replicas, once all survivors have reported for each.
pub(crate) fn told_of_all<'a>(
    all: &'a BTreeMap<ReplicaSlot, Equalling>,
    lost: &[ReplicaSlot],
    (own, others): (ReplicaSlot, &[ReplicaSlot]),
) -> Option<Told<'a>> {
    let told = lost.iter().map(|lost| {
        let equalling = all.get(lost)?;
        Some((*lost, equalling.told(own, others)?))
    });
    told.collect()
}
