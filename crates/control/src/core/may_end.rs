//! When a control may end: when no replica lacks anything that was done under it.
//!
//! Timers and revokes only say that a control *should* end. They are not in this module.

use super::ControlCore;
use crate::ancestry::Change;
use crate::moment::Moment;
use crate::name::{ControlName, Position};
use crate::own::{Origin, OwnControl, State};
use crate::tree::{Tree, chain};
use vfs::{ObjectId, ReplicaSlot};

/// The condition that a control that should end waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// Operations under it that are still running.
    Operations,
    /// A replica has not applied an update that was made under it.
    Update(Position),
    /// Some replica lacks content of a file that was written under it, or that it covers.
    Content,
    /// The acknowledgement of a remaining control at or below it, or inherited from it.
    Remaining,
    /// The acknowledgement of a remaining deep control above it.
    RemainingAbove,
}

impl ControlCore {
    /// Why an own control has not ended, in words for people; `None` if it is not an own control.
    #[must_use]
    pub fn held_because(&self, tree: &impl Tree, name: ControlName) -> Option<&'static str> {
        let number = self.own_number(name)?;
        let control = self.own.find(number)?;
        if control.state == State::Undecided {
            return Some("not every answer has arrived yet");
        }
        let lack = self.lack(tree, number, control);
        Some(match lack {
            Some(Lack::Operations) => "operations are being carried out",
            Some(Lack::Update(_)) => "a replica has not applied an update yet",
            Some(Lack::Content) => "a replica lacks file contents",
            Some(Lack::Remaining | Lack::RemainingAbove) => {
                "a replica has not acknowledged a control that remains"
            }
            None => "in use, or not idle for long enough",
        })
    }

    /// Ends a control that should end, or records what it waits for.
    pub(super) fn examine(&mut self, now: Moment, tree: &impl Tree, number: u64) {
        let Some(control) = self.own.find(number).filter(|_| self.is_settled()) else {
            // All controls are examined again when the view is settled.
            return;
        };
        match self.lack(tree, number, control) {
            None => self.release(now, tree, number),
            Some(Lack::Update(position)) => self.candidates.wait_for_position(number, position),
            Some(Lack::RemainingAbove) => self.candidates.wait_for_deep(number),
            Some(Lack::Operations | Lack::Content | Lack::Remaining) => {}
        }
    }

    fn release(&mut self, now: Moment, tree: &impl Tree, number: u64) {
        let name = self.name_of(number);
        let next = self.acceptor.longest_waiter(name).cloned();
        if let Some(next) = next.as_ref().filter(|next| !next.downgradable) {
            self.favour(now, next.name);
        }
        self.withdraw(tree, number, Some(next));
    }

    fn lack(&self, tree: &impl Tree, number: u64, control: &OwnControl) -> Option<Lack> {
        let rules = self.settings.rules;
        if control.held > 0 && rules.release_when_let_go() {
            return Some(Lack::Operations);
        }
        if rules.release_when_applied() {
            if self.applied_everywhere() < control.last_update {
                return Some(Lack::Update(control.last_update));
            }
            if self.has_unshipped_content(number, control) {
                return Some(Lack::Content);
            }
        }
        if !rules.release_when_narrower_known() {
            return None;
        }
        if self.remains_unknown(number, control) {
            return Some(Lack::Remaining);
        }
        let above = self.remains_unknown_above(tree, number, control);
        above.then_some(Lack::RemainingAbove)
    }

    /// The position up to which every active replica has applied this replica's stream.
    fn applied_everywhere(&self) -> Position {
        let others = self.view.active.iter().filter(|peer| **peer != self.slot);
        let applied = others.map(|peer| self.applied_by(*peer));
        applied.min().unwrap_or(Position(u64::MAX))
    }

    pub(super) fn applied_by(&self, peer: ReplicaSlot) -> Position {
        self.applied.get(&peer).copied().unwrap_or_default()
    }

    /// Considers files that were written under the control, or that it covers now: a moved directory keeps its own
    /// control for files that were written below it under the previous one. A file whose own control is known to all
    /// blocks nothing, so deep control need not wait until all replicas have a large file.
    fn has_unshipped_content(&self, number: u64, control: &OwnControl) -> bool {
        self.contents.any_exposed_under(number)
            || control
                .deep_objects()
                .any(|directory| self.contents.any_exposed_below(directory))
            || control.objects().any(|object| {
                self.contents.is_unshipped(object) && !self.is_protected_without(number, object)
            })
    }

    fn is_protected_without(&self, number: u64, file: ObjectId) -> bool {
        let mut controls = self.own.at(file);
        controls.any(|(other, own)| other != number && self.protects(own))
    }

    /// Whether some active replica has not acknowledged a control that remains for an object of this one: narrower and
    /// inherited controls, and others of the same or a larger extent, if replicas may lack updates made under them.
    /// Proposals that operations still wait for cover nothing.
    fn remains_unknown(&self, number: u64, control: &OwnControl) -> bool {
        self.unknown.has_heirs(number)
            || control.objects().any(|object| {
                let mut controls = self.own.at(object);
                controls.any(|(other, _)| other != number && self.unknown.contains(other))
            })
            || control
                .deep_objects()
                .any(|directory| self.unknown.others_below(directory, number))
    }

    fn remains_unknown_above(&self, tree: &impl Tree, number: u64, control: &OwnControl) -> bool {
        self.unknown.any_deep()
            && control.objects().any(|object| {
                let path = tree.above(object);
                let mut directories = path.iter();
                directories.any(|directory| self.unknown.others_deep_at(*directory, number))
            })
    }

    /// Determines whether an own control that is new, or has got another answer, is known to all replicas now.
    pub(super) fn review(&mut self, tree: &impl Tree, number: u64) {
        let Some(control) = self.own.find(number) else {
            return;
        };
        let known = control.election.acknowledged_by_all(&self.view.active);
        if control.is_in_use() && !known {
            if !self.unknown.contains(number) {
                self.unknown.insert(tree, number, control);
            }
            return;
        }
        self.unknown.remove(number, control);
        if known {
            let (objects, origin) = (control.objects().collect(), control.origin);
            let deep = control.is_deep();
            self.note_resolved(tree, objects, origin, deep);
        }
    }

    /// No control needs to wait for the acknowledgements of a previous own control any more.
    pub(super) fn forget(&mut self, tree: &impl Tree, previous: &OwnControl) {
        let number = previous.proposal.name.number;
        self.candidates.remove(number);
        self.unknown.remove(number, previous);
        if let Some(at) = previous.scheduled {
            self.deadlines.remove(&(at, number));
        }
        let objects = previous.objects().collect();
        self.note_resolved(tree, objects, previous.origin, previous.is_deep());
    }

    /// A control is known to all replicas, or has ended. Wakes what may have waited for that.
    fn note_resolved(
        &mut self,
        tree: &impl Tree,
        objects: Vec<ObjectId>,
        origin: Origin,
        deep: bool,
    ) {
        for object in &objects {
            self.contents.note_change(*object);
            self.closes.wake_at(*object, deep);
        }
        if self.candidates.is_empty() {
            return;
        }
        for object in objects {
            let at = self.own.at(object).map(|(number, _)| number);
            for number in at.chain(self.own.deep_above(tree, object)) {
                self.candidates.wake(number);
            }
        }
        if let Origin::Inherited(from) = origin {
            self.candidates.wake(from.number);
        }
        if deep {
            self.candidates.wake_below_deep();
        }
    }

    /// The directories above an object have changed: controls there are placed again, and a deep control that the
    /// object has left may have waited for it.
    pub(super) fn note_moved(
        &mut self,
        tree: &impl Tree,
        object: ObjectId,
        parent: ObjectId,
        change: Change,
    ) {
        self.contents.note_change(object);
        self.closes.note_moved(object);
        if self.contents.any_exposed_below(object) {
            self.contents.note_upheaval();
        }
        let moved: Vec<u64> = if self.unknown.any_below(object) {
            self.unknown.numbers()
        } else {
            let at = self.own.at(object).map(|(number, _)| number);
            at.filter(|number| self.unknown.contains(*number)).collect()
        };
        self.place_anew(tree, moved);
        if change == Change::Remove && !self.candidates.is_empty() {
            for number in self.own.deep_at(chain(tree, parent)) {
                self.candidates.wake(number);
            }
        }
    }

    fn place_anew(&mut self, tree: &impl Tree, moved: Vec<u64>) {
        for number in moved {
            if let Some(control) = self.own.find(number) {
                self.unknown.insert(tree, number, control);
            }
        }
    }

    /// The whole tree was replaced, so every object may be in another place.
    pub(super) fn review_places(&mut self, tree: &impl Tree) {
        self.place_anew(tree, self.unknown.numbers());
        self.contents.note_upheaval();
        self.candidates.wake_all();
        self.closes.wake_all();
    }

    /// Records how far a peer has applied this replica's stream.
    pub(super) fn note_applied(&mut self, peer: ReplicaSlot, position: Position) {
        let applied = self.applied.entry(peer).or_default();
        *applied = position.max(*applied);
        let reached = *applied;
        self.closes.reach(peer, reached);
        let everywhere = self.applied_everywhere();
        self.candidates.reach(everywhere);
    }

    /// A peer may have an older copy than before. What was recorded about it is dropped, and recorded again when the peer reports.
    pub fn forget_applied(&mut self, peer: ReplicaSlot) {
        self.applied.remove(&peer);
    }

    /// The set of active replicas has changed, so everything has to be examined again.
    pub(super) fn review_everything(&mut self, tree: &impl Tree) {
        let numbers: Vec<u64> = self.own.iter().map(|(number, _)| number).collect();
        for number in numbers {
            self.review(tree, number);
        }
        self.contents.note_upheaval();
        self.candidates.wake_all();
        self.closes.wake_all();
    }
}
