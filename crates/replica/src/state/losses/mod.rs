//! What is known here of lost replicas: who has how much of what they made.
//!
//! `verdict` says which survivor has the best of a file, `awareness` who answers as today's durability asks.
//!
//! What must never enter: what is done about it (`membership::losses`).

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
    /// Notes that a settlement takes effect here; false when it has done so before.
    pub(crate) fn settles_now(&self, id: u64) -> bool {
        self.settled.lock().insert(id)
    }

    /// Nothing more is to be known of a replica that is gone.
    pub(crate) fn forget(&self, slot: ReplicaSlot) {
        self.equalling().remove(&slot);
        self.awareness().forget(slot);
    }

    /// Who answers as today's durability asks.
    pub(crate) fn awareness(&self) -> TableGuard<'_, Awareness> {
        self.awareness.lock()
    }

    /// A change begins that may bring something under `majority`. It is over when what this returns goes; whether it was one has
    /// been noted then.
    pub(crate) fn undecided(&self) -> Undecided<'_> {
        self.awareness().undecided();
        Undecided(self)
    }

    pub(crate) fn equalling(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, Equalling>> {
        self.equalling.lock()
    }
}

/// While this lives nobody is known to answer as today's durability asks.
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
    /// Nothing more of it was taken in at first hand when it was looked for what is missing here.
    pub(crate) closed: bool,
    pub(crate) said: Option<Instant>,
    pub(crate) pause: Duration,
    /// What was missing here when all were level, as it was reported.
    pub(crate) own: Lacks,
    /// What is missing here of members' data, of files that are incomplete somewhere; as it was reported.
    pub(crate) own_of_members: OfMembers,
    pub(crate) reports: BTreeMap<ReplicaSlot, Report>,
    /// With what this replica supplies others, once it is known who has the best of each file.
    pub(crate) supplying: Option<Supplying>,
    /// Nothing was told since that was found out.
    pub(crate) has_looked: bool,
    /// Who takes part since later than the lost one did.
    pub(crate) late: BTreeSet<ReplicaSlot>,
    /// Who has supplied this replica with a file since then.
    pub(crate) sent: BTreeMap<ObjectId, ReplicaSlot>,
    /// Files that are complete nowhere, and here as in the best copy.
    pub(crate) level: BTreeSet<ObjectId>,
    pub(crate) whole: bool,
}

/// With what one that has the best of files supplies others.
#[derive(Debug)]
pub(crate) struct Supplying {
    /// In this epoch.
    pub(crate) epoch: u64,
    /// The lost ones of whom nothing more was taken in here when it was looked for what is missing.
    pub(crate) closed: Vec<u16>,
    pub(crate) files: BTreeMap<ObjectId, BTreeSet<ReplicaSlot>>,
}

impl Supplying {
    /// What of these files goes to a peer.
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
    /// Nothing more was taken in there at first hand.
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

    /// Whether some of a file is missing here, as it was reported.
    fn lacks_some_of(&self, file: ObjectId) -> bool {
        let of_file = (file, ReplicaSlot(0))..=(file, ReplicaSlot(u16::MAX));
        self.own.contains_key(&file) || self.own_of_members.range(of_file).next().is_some()
    }

    /// The files of which something is missing somewhere, by what was told so far.
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

    /// What all survivors lack, once everybody has told; once nothing more is taken in here, of a time when nothing more was there.
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

/// The same of all lost replicas, once everybody has told of each.
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
