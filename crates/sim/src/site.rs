//! The state of a replica besides its core and its copy: a disk, a clock, a lease, its knowledge of views.
//!
//! It keeps these and answers questions about them; the world decides when they change.

use crate::clock::Clock;
use crate::packet::Packet;
use crate::replica::{Content, StreamUpdate};
use crate::tree::{Copy, Edit, Outcome};
use control::{
    ControlName, Incarnation, LeaseSettings, Moment, Position, Proposal, Record, ReplicaSlot,
    SiteLease,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use vfs::ObjectId;

/// An update with its place in its primary's stream.
pub(crate) type Logged = (ReplicaSlot, u64, Arc<StreamUpdate>);

/// How far each primary's stream has been applied.
pub(crate) type Heads = BTreeMap<ReplicaSlot, u64>;

/// A change of the disk's contents.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A record of the control table.
    Control(Record),
    /// An update of the own stream or another's.
    Update(Logged),
    /// A file has this content, made here: it is dirty.
    Wrote(ObjectId, u64),
    /// A file has this content, made elsewhere.
    Stored(ObjectId, u64),
    /// All members have this content of a dirty file.
    Shipped(ObjectId, u64),
    /// It was up to date in the view that was in force after this many decisions.
    UpToDate(usize),
    /// This many settlements are in force.
    Settlements(u64),
    /// Everything but the control table is another replica's copy.
    Replaced(Arc<Stable>),
}

/// What survives a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stable {
    pub tree: Copy,
    /// Everything applied, own updates included, in the order it was.
    pub history: Vec<Logged>,
    pub heads: Heads,
    pub grants: BTreeMap<ControlName, Proposal>,
    pub set_aside: BTreeMap<ControlName, Proposal>,
    pub dirty: BTreeMap<ObjectId, u64>,
    pub done: BTreeSet<u64>,
    /// The number of decisions at which it was up to date in the view then in force; 0 if it never was
    /// with this copy.
    pub up_to_date_at: usize,
}

impl Stable {
    /// Makes a change.
    pub(crate) fn take(&mut self, change: Change) {
        match change {
            Change::Control(Record::Granted(proposal)) => {
                self.grants.insert(proposal.name, proposal);
            }
            Change::Control(Record::Ended(name)) => {
                self.grants.remove(&name);
            }
            Change::Control(Record::SetAside(proposal)) => {
                self.grants.remove(&proposal.name);
                self.set_aside.insert(proposal.name, proposal);
            }
            Change::Control(Record::Forgotten(name)) => {
                self.set_aside.remove(&name);
            }
            Change::Update(logged) => {
                let (origin, position, update) = &logged;
                for edit in &update.edits {
                    self.tree.apply(edit);
                }
                for edit in &update.edits {
                    if let Edit::Leave { object, .. } = *edit {
                        self.tree.forget_nameless(object);
                    }
                }
                self.heads.insert(*origin, *position);
                self.done.insert(update.origin);
                self.history.push(logged);
            }
            Change::Wrote(object, version) => {
                self.tree.apply(&Edit::Version { object, version });
                self.dirty.insert(object, version);
            }
            Change::Stored(object, version) => {
                self.tree.apply(&Edit::Version { object, version });
            }
            Change::Shipped(object, version) => {
                if self.dirty.get(&object) == Some(&version) {
                    self.dirty.remove(&object);
                }
            }
            Change::UpToDate(decisions) => self.up_to_date_at = decisions,
            Change::Settlements(count) => self.tree.count_settlements(count),
            Change::Replaced(copy) => {
                let grants = std::mem::take(&mut self.grants);
                let set_aside = std::mem::take(&mut self.set_aside);
                *self = Stable {
                    tree: self.tree.replaced_by(&copy.tree),
                    grants,
                    set_aside,
                    dirty: BTreeMap::new(),
                    up_to_date_at: 0,
                    ..(*copy).clone()
                };
            }
        }
    }

    /// The updates that a replica with these heads lacks, up to `until` if that has an entry.
    pub(crate) fn missing(&self, heads: &Heads, until: Option<&Heads>) -> Vec<Logged> {
        let lacks = |(origin, position, _): &&Logged| {
            let wanted = until.is_none_or(|until| head(until, *origin) >= *position);
            wanted && head(heads, *origin) < *position
        };
        self.history.iter().filter(lacks).cloned().collect()
    }

    /// The versions of all files.
    pub(crate) fn contents(&self) -> Vec<(ObjectId, u64)> {
        let files = self
            .tree
            .objects()
            .filter(|object| self.tree.entries(*object).is_none());
        files
            .filter_map(|file| Some((file, self.tree.version(file)?)))
            .collect()
    }
}

/// How far a stream has been applied.
pub(crate) fn head(heads: &Heads, origin: ReplicaSlot) -> u64 {
    heads.get(&origin).copied().unwrap_or(0)
}

/// An action that waits until the disk has everything written so far.
#[derive(Clone, Debug)]
pub(crate) enum Deferred {
    Send(ReplicaSlot, Packet),
    Finish(u64, Outcome),
    /// Operation, file, version: ship the content and ask whether its close may be answered.
    Wrote(u64, Content),
    /// Ship an own update.
    Ship(u64, Arc<StreamUpdate>),
}

/// A replica outside the view, as it reports itself.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub incarnation: u64,
    /// How far it has applied every stream.
    pub heads: Heads,
    pub level_with: BTreeSet<ReplicaSlot>,
}

/// The whole of this state, for one replica.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub up: bool,
    pub incarnation: u64,
    pub clock: Clock,
    pub lease: SiteLease,
    pub stable: Stable,
    journal: VecDeque<Change>,
    /// The number of changes written in this incarnation, and the number of them that are stable.
    written: u64,
    flushed: u64,
    /// The place of each control record in the journal.
    pub marks: Vec<u64>,
    deferred: BTreeMap<(u64, u64), Deferred>,
    pub flushing: bool,
    /// The number of decisions that it knows, and the number of them in force here.
    pub learnt: usize,
    pub entered: usize,
    /// A view has come into force since it was started; before that it takes part in none.
    pub begun: bool,
    /// Its last admitted incarnation; the others accept messages of a later one as its own.
    pub admitted: u64,
    /// It answers no client before this is set.
    pub caught_up: bool,
    /// The members that have sent everything that they had when they entered the present view, after they had heard every report.
    pub heard: BTreeSet<ReplicaSlot>,
    /// The members that have sent everything, perhaps before they had heard every report.
    pub level_with: BTreeSet<ReplicaSlot>,
    pub heads_at_entry: Heads,
    /// For each other replica: how far it had applied all streams by its last report, and when that arrived by the own clock.
    pub said: BTreeMap<ReplicaSlot, (Moment, Heads)>,
    /// The replicas that wait outside the present view.
    pub waiting: BTreeMap<ReplicaSlot, Waiting>,
    /// Its stream was cut, so that it needs a whole copy.
    pub cut: bool,
    /// It may have updates that were given up, so that it needs a whole copy once it has sent its own.
    pub stale: bool,
    /// How often its copy was replaced by another replica's since it was started.
    pub replaced: u64,
    /// The length of its stream when it was started.
    pub previous_head: u64,
    /// When it entered the present view, or was started, by its clock.
    pub since: Moment,
    /// All members have everything of its earlier incarnations.
    pub renounced: bool,
    /// How far each peer has applied its stream, as reported in this incarnation.
    pub acknowledged: Heads,
    /// It cannot write.
    pub full: bool,
    /// Operations and closes that wait for a lease.
    pub parked: BTreeSet<u64>,
    pub retrying: bool,
    /// Messages of these are refused: the set is agreeing on the end of their streams.
    pub closed_to: BTreeSet<ReplicaSlot>,
}

impl Site {
    /// A replica in a run without failures.
    pub(crate) fn new(slot: ReplicaSlot) -> Site {
        Site {
            up: true,
            incarnation: 1,
            clock: Clock::new(0, Moment(0)),
            lease: SiteLease::new(slot, Incarnation(1), LeaseSettings::default(), Moment(0)),
            stable: Stable::default(),
            journal: VecDeque::new(),
            written: 0,
            flushed: 0,
            marks: Vec::new(),
            deferred: BTreeMap::new(),
            flushing: false,
            learnt: 1,
            entered: 1,
            begun: true,
            admitted: 1,
            caught_up: true,
            heard: BTreeSet::new(),
            level_with: BTreeSet::new(),
            heads_at_entry: Heads::new(),
            said: BTreeMap::new(),
            waiting: BTreeMap::new(),
            cut: false,
            stale: false,
            replaced: 0,
            previous_head: 0,
            since: Moment(0),
            renounced: true,
            acknowledged: Heads::new(),
            full: false,
            parked: BTreeSet::new(),
            retrying: false,
            closed_to: BTreeSet::new(),
        }
    }

    /// The next incarnation after a crash, with what is left.
    pub(crate) fn started_anew(
        &self,
        slot: ReplicaSlot,
        clock: Clock,
        lease: SiteLease,
        local: Moment,
    ) -> Site {
        Site {
            incarnation: self.incarnation + 1,
            clock,
            lease,
            stable: self.stable.clone(),
            learnt: self.learnt,
            entered: self.entered,
            full: self.full,
            cut: self.cut,
            stale: self.stale,
            begun: false,
            admitted: self.admitted,
            caught_up: false,
            renounced: false,
            heads_at_entry: self.stable.heads.clone(),
            previous_head: self.stable_head(slot),
            since: local,
            ..Site::new(slot)
        }
    }

    /// Whether updates of other replicas are applied in the usual way.
    pub(crate) fn applies(&self) -> bool {
        self.caught_up && !self.full
    }

    /// The time on its clock.
    pub(crate) fn local(&self, now: Moment) -> Moment {
        self.clock.local(now)
    }

    /// When its clock will show this time.
    pub(crate) fn global(&self, local: Moment) -> Moment {
        self.clock.global(local)
    }

    /// Appends a change to the journal.
    pub(crate) fn write(&mut self, change: Change) {
        if matches!(change, Change::Control(_)) {
            self.marks.push(self.written + 1);
        }
        self.written += 1;
        self.journal.push_back(change);
    }

    /// The end of the journal.
    pub(crate) fn end(&self) -> u64 {
        self.written
    }

    /// Whether that place is stable.
    pub(crate) fn is_stable(&self, place: u64) -> bool {
        place <= self.flushed
    }

    pub(crate) fn defer(&mut self, place: u64, what: Deferred) {
        let turn = self.deferred.len() as u64 + 1;
        let last = self.deferred.last_key_value();
        let turn = last.map_or(turn, |((_, last), _)| turn.max(last + 1));
        self.deferred.insert((place, turn), what);
    }

    /// Makes the next changes stable.
    pub(crate) fn flush(&mut self, count: usize) {
        for change in self.journal.drain(..count.min(self.journal.len())) {
            self.stable.take(change);
            self.flushed += 1;
        }
    }

    /// How many changes are not stable yet.
    pub(crate) fn unstable(&self) -> usize {
        self.journal.len()
    }

    /// Whether a whole copy from another replica would survive a crash.
    pub(crate) fn copy_is_stable(&self) -> bool {
        let mut unstable = self.journal.iter();
        !unstable.any(|change| matches!(change, Change::Replaced(_)))
    }

    /// Discards everything that is not stable, and what waited for it. A copy that was lost this way is
    /// still needed.
    pub(crate) fn forget_unstable(&mut self) {
        self.cut |= !self.copy_is_stable();
        self.journal.clear();
        self.deferred.clear();
        self.marks.clear();
        (self.written, self.flushed) = (0, 0);
        self.flushing = false;
    }

    /// The next action that need not wait any more.
    pub(crate) fn next_deferred(&mut self) -> Option<Deferred> {
        let entry = self.deferred.first_entry()?;
        (entry.key().0 <= self.flushed).then(|| entry.remove())
    }

    /// How far the own stream is stable, and so may be reported to others.
    pub(crate) fn stable_head(&self, slot: ReplicaSlot) -> u64 {
        head(&self.stable.heads, slot)
    }

    /// The content of each dirty file, to be sent again.
    pub(crate) fn dirty_contents(&self, slot: ReplicaSlot) -> Vec<Content> {
        let follows = Position(self.stable_head(slot));
        let dirty = self.stable.dirty.iter();
        let known = dirty.filter(|(file, _)| self.stable.tree.version(**file).is_some());
        known
            .map(|(file, version)| Content {
                file: *file,
                version: *version,
                follows,
            })
            .collect()
    }
}
