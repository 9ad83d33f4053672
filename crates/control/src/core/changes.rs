//! Changes around the core: links of the tree, and objects that are controlled from their creation.

use super::ControlCore;
use crate::ancestry::Change;
use crate::claim::{Claim, Depth, Proposal};
use crate::moment::Moment;
use crate::name::ControlName;
use crate::own::{Origin, OwnControl, State};
use crate::tree::{Overlay, Remembered, Tree};
use crate::update::{Need, NeedKind, Subject};
use vfs::{ObjectId, ReplicaSlot};

/// No own control has this number; a deadline with it only triggers the alarm.
const NO_CONTROL: u64 = 0;

impl ControlCore {
    /// This replica's tree has a new link from `parent` to `object`.
    pub fn handle_linked(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        object: ObjectId,
        parent: ObjectId,
    ) {
        let tree = &Remembered::new(tree);
        self.note_link(now, tree, object, parent, Change::Add);
    }

    /// This replica's tree has lost a link from `parent` to `object`. A rename is an unlinking and a linking. Already
    /// at the first of the two calls the tree shows the result, and only the path above each parent is used. Until all
    /// links of an update are reported, nothing is granted and nothing ends: in between, a control that moves seems to
    /// be in neither place, and is counted in only one. Closes are not answered either before the update itself is
    /// reported: other replicas may not know yet where the file is.
    pub fn handle_unlinked(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        object: ObjectId,
        parent: ObjectId,
    ) {
        let tree = &Remembered::new(tree);
        self.note_link(now, tree, object, parent, Change::Remove);
    }

    fn note_link(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        object: ObjectId,
        parent: ObjectId,
        change: Change,
    ) {
        self.acceptor.note_link(tree, object, parent, change);
        self.note_moved(tree, object, parent, change);
        match change {
            Change::Add => {
                self.settle_links(tree);
                self.advance(now, tree);
            }
            Change::Remove => self.links_unsettled |= self.acceptor.has_waiting(),
        }
        if change == Change::Remove || self.closes.any_woken() {
            self.deadlines.insert((now, NO_CONTROL));
        }
        self.arm_timer();
    }

    /// Grants what a change of the tree has made possible.
    pub(super) fn settle_links(&mut self, tree: &impl Tree) {
        self.links_unsettled = false;
        let answers = self.acceptor.settle(tree, &self.view);
        self.answers.extend(answers);
    }

    /// An object is being created here in `parent`. Its link is reported afterwards; until then it does not matter
    /// whether `tree` shows it. Under deep control the object is covered. Under shallow control this replica becomes
    /// its primary by inheritance, and the returned control must travel with the update that creates the object. If the
    /// creation fails, the control times out like any other.
    pub fn handle_created(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        object: Subject,
        parent: ObjectId,
    ) -> Option<Proposal> {
        let tree = &Remembered::new(tree);
        if !self.settings.rules.inheritance() {
            return None;
        }
        let kind = NeedKind::Directory;
        let parent_need = Need {
            object: parent,
            kind,
        };
        let covering = self.own.meeting(tree, &parent_need);
        let mut in_force = covering.iter().filter(|(_, own)| own.state == State::Held);
        let (number, _) = in_force.next()?;
        let origin = Origin::Inherited(self.name_of(*number));
        let id = object.object();
        let born = Overlay::new(tree, id, Some(parent));
        if self.controls(&born, object) {
            return None;
        }
        let claim = Claim::new(&born, id, Depth::Shallow);
        let unborn = Overlay::new(tree, id, None);
        let proposal = self.inherit(now, &unborn, claim, object, origin);
        self.run(now, tree);
        Some(proposal)
    }

    fn inherit(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        claim: Claim,
        object: Subject,
        origin: Origin,
    ) -> Proposal {
        let kind = match object {
            Subject::Directory(_) => NeedKind::Directory,
            Subject::File(_) | Subject::LinkedFile(_) => NeedKind::File,
        };
        let object = object.object();
        let number = self.next_number;
        self.next_number += 1;
        let proposal = Proposal {
            name: self.name_of(number),
            claims: vec![claim],
            downgradable: false,
            behind: Vec::new(),
        };
        let (needs, state) = (vec![Need { object, kind }], State::Held);
        let control = OwnControl::new(now, proposal.clone(), needs, origin, state, Vec::new());
        self.own.insert(control);
        self.review(tree, number);
        let answer = self.acceptor.adopt(tree, proposal.clone());
        self.answers.extend(answer);
        self.schedule(number);
        proposal
    }

    /// An applied update of `from` created an object that `from` controls from the start.
    pub fn handle_inherited(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        from: ReplicaSlot,
        proposal: Proposal,
    ) {
        let tree = &Remembered::new(tree);
        if proposal.name.holder == from {
            let answer = self.acceptor.adopt(tree, proposal);
            self.answers.extend(answer);
            self.run(now, tree);
        }
    }

    /// An update of another primary has arrived, but may not be applied yet. It proves that its controls were won. So
    /// named waiters do not block those controls here any more: the waiters may be waiting for that primary, and the
    /// primary for this update to be applied. Call this for the first update of each stream whenever
    /// [`ControlCore::may_apply`] refuses it. Returns whether anything changed.
    pub fn handle_update_waiting(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        under: &[ControlName],
    ) -> bool {
        let tree = &Remembered::new(tree);
        if !self.acceptor.note_won(under) {
            return false;
        }
        let answers = self.acceptor.settle(tree, &self.view);
        self.answers.extend(answers);
        self.run(now, tree);
        true
    }

    /// The caller's whole tree was replaced by a copy of another replica's tree. All counters of ancestors are computed
    /// again.
    pub fn handle_tree_replaced(&mut self, now: Moment, tree: &impl Tree) {
        self.acceptor.note_replaced(tree);
        self.review_places(tree);
        let answers = self.acceptor.settle(tree, &self.view);
        self.answers.extend(answers);
        self.run(now, tree);
    }

    /// The controls that this replica proposes or holds, in any state, for status pages.
    pub fn own_controls(&self) -> impl Iterator<Item = (ControlName, &Proposal)> {
        let own = self.own.iter();
        own.map(|(_, control)| (control.proposal.name, &control.proposal))
    }
}
