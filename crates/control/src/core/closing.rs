//! The close rule: a written file is reported as closed only after every active replica would forward an open of it to
//! this replica.
//!
//! The data need not have arrived anywhere. What must never enter: sharing and locks.

use super::{ControlCore, Overloaded};
use crate::command::{Command, Mark, OperationId};
use crate::moment::Moment;
use crate::name::Position;
use crate::own::{OwnControl, State, take};
use crate::placed::Placed;
use crate::tree::{Remembered, Tree};
use crate::update::{Need, NeedKind};
use std::collections::{BTreeMap, BTreeSet};
use vfs::{ObjectId, ReplicaSlot};

/// A close, or the release of a byte-range lock, that waits for its answer.
#[derive(Clone, Debug)]
struct Close {
    operation: OperationId,
    file: ObjectId,
    entry: Option<Position>,
    /// The objects whose control can allow the answer: the file, and the directories with its name.
    watched: Vec<ObjectId>,
    /// The positions of this replica's stream that each replica has to apply first.
    positions: Vec<(ReplicaSlot, Position)>,
}

/// Closes in the order of arrival, and an index of which of them an event may concern.
#[derive(Clone, Debug, Default)]
pub(super) struct Closes {
    next: u64,
    waiting: BTreeMap<u64, Close>,
    to_examine: BTreeSet<u64>,
    by_object: BTreeMap<ObjectId, BTreeSet<u64>>,
    by_position: BTreeSet<(ReplicaSlot, Position, u64)>,
    placed: Placed<u64>,
}

impl Closes {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether any close has to be examined again.
    pub(super) fn any_woken(&self) -> bool {
        !self.to_examine.is_empty()
    }

    fn insert(&mut self, close: Close) {
        self.next += 1;
        self.waiting.insert(self.next, close);
        self.to_examine.insert(self.next);
    }

    /// Removes a close, and all index entries for it.
    fn take(&mut self, number: u64) -> Option<Close> {
        let mut close = self.waiting.remove(&number)?;
        for object in close.watched.drain(..) {
            take(&mut self.by_object, object, number);
        }
        for (peer, position) in close.positions.drain(..) {
            self.by_position.remove(&(peer, position, number));
        }
        self.placed.remove(number);
        Some(close)
    }

    fn put_back(&mut self, tree: &impl Tree, number: u64, close: Close) {
        for object in &close.watched {
            self.by_object.entry(*object).or_default().insert(number);
        }
        for (peer, position) in &close.positions {
            self.by_position.insert((*peer, *position, number));
        }
        self.placed.place(tree, number, [close.file]);
        self.waiting.insert(number, close);
    }

    pub(super) fn wake_all(&mut self) {
        self.to_examine.extend(self.waiting.keys());
    }

    /// A replica has acknowledged a control of this object, or the control has ended.
    pub(super) fn wake_at(&mut self, object: ObjectId, deep: bool) {
        if deep && self.placed.any_below(object) {
            self.wake_all();
        } else if let Some(numbers) = self.by_object.get(&object) {
            self.to_examine.extend(numbers);
        }
    }

    /// The directories above an object have changed.
    pub(super) fn note_moved(&mut self, object: ObjectId) {
        self.wake_at(object, true);
    }

    /// A peer has applied this replica's stream up to this position.
    pub(super) fn reach(&mut self, peer: ReplicaSlot, position: Position) {
        let first = (peer, Position(0), 0);
        let last = (peer, position, u64::MAX);
        let reached = self.by_position.range(first..=last);
        self.to_examine
            .extend(reached.map(|(_, _, number)| *number));
    }
}

/// The own controls that cover a close.
struct Cover<'a> {
    file: Vec<&'a OwnControl>,
    /// One list of controls for each directory with a name of the file.
    directories: Vec<(ObjectId, Vec<&'a OwnControl>)>,
}

impl ControlCore {
    /// Asks whether the close of a written file may be answered. [`Command::Admit`] allows it, at once if every active
    /// replica knows a control that covers the file, and either a control that covers its directory or the entry
    /// itself. `entry` is the position of the file's creation in this replica's stream, if the file was created here
    /// recently.
    ///
    /// # Errors
    /// The maximum number of closes is waiting; the client has to try again.
    pub fn handle_close(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        operation: OperationId,
        file: ObjectId,
        entry: Option<Position>,
    ) -> Result<(), Overloaded> {
        let tree = &Remembered::new(tree);
        if self.closes.len() >= self.settings.capacity {
            return Err(Overloaded);
        }
        self.closes.insert(Close {
            operation,
            file,
            entry,
            watched: Vec::new(),
            positions: Vec::new(),
        });
        self.run(now, tree);
        Ok(())
    }

    pub(super) fn answer_closes(&mut self, tree: &impl Tree) {
        if !self.is_settled() {
            return;
        }
        while let Some(number) = self.closes.to_examine.pop_first() {
            let Some(mut close) = self.closes.take(number) else {
                continue;
            };
            let cover = self.cover(tree, &close);
            let mut others = self.view.active.iter().filter(|peer| **peer != self.slot);
            let ignorant = others.find(|peer| !self.is_known(**peer, &close, &cover));
            let Some(peer) = ignorant else {
                self.commands.push_back(Command::Admit {
                    operation: close.operation,
                    under: Vec::new(),
                    after: Mark(0),
                });
                continue;
            };
            let entry = close.entry.unwrap_or_default();
            let awaited = [entry, self.last_move].into_iter();
            let awaited = awaited.filter(|position| *position > self.applied_by(*peer));
            close.positions = awaited.map(|position| (*peer, position)).collect();
            close.watched = cover
                .directories
                .iter()
                .map(|(object, _)| *object)
                .collect();
            close.watched.push(close.file);
            self.closes.put_back(tree, number, close);
        }
    }

    fn cover(&self, tree: &impl Tree, close: &Close) -> Cover<'_> {
        let directories = tree.parents(close.file);
        let kind = match directories.len() {
            0 | 1 => NeedKind::File,
            _ => NeedKind::LoneFile,
        };
        let covering = |object, kind| {
            let found = self.own.meeting(tree, &Need { object, kind });
            found.into_iter().map(|(_, own)| own).collect()
        };
        Cover {
            file: covering(close.file, kind),
            directories: directories
                .into_iter()
                .map(|object| (object, covering(object, NeedKind::Directory)))
                .collect(),
        }
    }

    fn is_known(&self, peer: ReplicaSlot, close: &Close, cover: &Cover<'_>) -> bool {
        let rules = self.settings.rules;
        (!rules.close_waits_for_file() || self.file_is_known(peer, close.file, cover))
            && (!rules.close_waits_for_entry() || self.entry_is_known(peer, close, cover))
    }

    /// A file without own control is known: its control was given up, which happens only when all replicas have its
    /// data. A proposal that operations still wait for does not count.
    fn file_is_known(&self, peer: ReplicaSlot, file: ObjectId, cover: &Cover<'_>) -> bool {
        !cover.file.iter().any(|own| own.is_in_use())
            || self.cover_is_known(peer, file, &cover.file)
    }

    fn entry_is_known(&self, peer: ReplicaSlot, close: &Close, cover: &Cover<'_>) -> bool {
        let Some(entry) = close.entry else {
            return true;
        };
        let mut directories = cover.directories.iter();
        self.applied_by(peer) >= entry
            || directories.any(|(object, covering)| self.cover_is_known(peer, *object, covering))
    }

    /// Whether a peer would forward an open of the object to this replica, and continue to do so. An undecided proposal
    /// does not count, because it may be withdrawn. With deep control, the peer forwards only if its own copy also
    /// shows the object below the directory: it must have applied the last rename that moved anything into the control.
    fn cover_is_known(
        &self,
        peer: ReplicaSlot,
        object: ObjectId,
        covering: &[&OwnControl],
    ) -> bool {
        let has_followed =
            self.applied_by(peer) >= self.last_move || !self.settings.rules.close_waits_for_moves();
        let decided_only = self.settings.rules.close_waits_for_decision();
        covering.iter().any(|own| {
            own.election.acknowledged_by(peer)
                && (own.state != State::Undecided || !decided_only)
                && (has_followed || own.claims_object(object))
        })
    }
}
