//! What this replica acknowledged, held and proposed before its restart.
//!
//! Previous own controls admit nothing more. They block other proposals, here and elsewhere, until all replicas have
//! everything that was made under them. Then all of them end together, including what was lost: an end that no replica
//! had heard of yet, or a proposal that some replicas had granted. The caller decides when they are settled.

use super::ControlCore;
use crate::claim::Proposal;
use crate::command::{Mark, Record};
use crate::message::Message;
use crate::moment::Moment;
use crate::name::{ControlName, Incarnation};
use crate::tree::Tree;
use crate::view::View;
use std::collections::BTreeSet;
use vfs::ReplicaSlot;

/// At its first start a replica has forgotten nothing.
pub(super) const FIRST_START: Incarnation = Incarnation(1);

/// The progress of the end of the previous incarnations' controls.
#[derive(Clone, Debug)]
pub(super) enum Previous {
    /// Some replica may still lack something that was made under them.
    Unsettled,
    /// They have ended; these peers have not noted it.
    Renounced(BTreeSet<ReplicaSlot>),
}

impl Previous {
    /// Whether previous controls may still be needed.
    pub(super) fn is_unsettled(&self) -> bool {
        matches!(self, Previous::Unsettled)
    }

    /// In a new view all peers are told of the renunciation again. A peer may have noted it, restarted, and then
    /// learned of the previous controls from a peer that had not noted it yet.
    pub(super) fn tell_again(&mut self, peers: BTreeSet<ReplicaSlot>) {
        if let Previous::Renounced(unaware) = self {
            *unaware = peers;
        }
    }
}

impl ControlCore {
    /// Own controls of previous incarnations that may still be needed.
    pub(super) fn previous_controls(&self) -> impl Iterator<Item = &Proposal> {
        let grants = self.acceptor.table().grants();
        grants.filter(|grant| grant.name.holder == self.slot && self.may_be_needed(grant.name))
    }

    /// Passes a new core a control that this replica had durably acknowledged before its restart. Its own previous
    /// controls are among them. Call it before any other method.
    pub fn restore(&mut self, tree: &impl Tree, grant: Proposal) {
        self.acceptor.restore(tree, grant);
    }

    /// Passes a new core a control of another replica that this one had durably set aside when it was out of the view.
    /// Call it before any other method.
    pub fn restore_set_aside(&mut self, grant: Proposal) {
        self.set_aside.insert(grant.name, grant);
    }

    /// Whether the controls of previous incarnations have ended, because [`ControlCore::handle_previous_settled`] reported that all replicas have everything
    /// that was made under them. This becomes false when this replica learns, outside the view, of an active replica that was not asked then: the others may
    /// have continued without it long ago.
    #[must_use]
    pub fn has_renounced(&self) -> bool {
        !self.previous.is_unsettled()
    }

    /// A view without this replica begins. A replica that is active in it, and was not in the previous one, may lack what the others had when the previous
    /// controls ended. So these controls block again until the caller has checked again.
    pub(super) fn doubt_renunciation(&mut self, previous: &View) {
        let mut others = self.view.active.iter();
        let unasked = others.any(|other| self.view.is_new(*other, previous));
        if self.view.has_lost(self.slot) && unasked {
            self.previous = Previous::Unsettled;
        }
    }

    /// All replicas have everything that was made under controls of previous incarnations: the controls end, and all peers are told.
    pub fn handle_previous_settled(&mut self, now: Moment, tree: &impl Tree) {
        if matches!(self.previous, Previous::Renounced(_)) {
            return;
        }
        let before = self.incarnation;
        let peers = self.peers();
        self.previous = Previous::Renounced(peers.clone());
        self.end_previous(tree, self.slot, before);
        self.send_to_all(&peers, &Message::Renounce { before });
        self.run(now, tree);
    }

    pub(super) fn end_previous(
        &mut self,
        tree: &impl Tree,
        holder: ReplicaSlot,
        before: Incarnation,
    ) {
        let (ended, answers) = self.acceptor.renounce(tree, &self.view, holder, before);
        for name in ended {
            self.persist(Record::Ended(name));
        }
        self.answers.extend(answers);
    }

    pub(super) fn on_renounce(&mut self, tree: &impl Tree, from: ReplicaSlot, before: Incarnation) {
        self.end_previous(tree, from, before);
        let noted = self.persisted;
        self.send(from, Message::Renounced { before }, noted);
    }

    pub(super) fn on_renounced(&mut self, from: ReplicaSlot, before: Incarnation) {
        if let Previous::Renounced(unaware) = &mut self.previous
            && before == self.incarnation
        {
            unaware.remove(&from);
        }
    }

    /// The renunciation that a peer must get again on a new connection.
    pub(super) fn renunciation_for(&self, peer: ReplicaSlot) -> Option<Message> {
        let before = self.incarnation;
        match &self.previous {
            Previous::Renounced(unaware) if unaware.contains(&peer) => {
                Some(Message::Renounce { before })
            }
            _ => None,
        }
    }

    /// A replica that restarted has forgotten which controls have ended, and a replica that joins for the first time
    /// was never told. A proposal that made way for such a control would wait here for ever. So this replica asks the
    /// holder, which disowns the control.
    pub(super) fn ask_about(&mut self, behind: &[ControlName]) {
        if self.incarnation <= FIRST_START && !self.joined {
            return;
        }
        let unknown = behind.iter().filter(|name| {
            name.holder != self.slot
                && !self.acceptor.knows(**name)
                && !self.acceptor.has_ended(**name)
        });
        let unknown: Vec<ControlName> = unknown.copied().collect();
        for name in unknown {
            self.send(name.holder, Message::Revoke { name }, Mark(0));
        }
    }

    /// Asks a peer again, because the previous connection may have lost the question or the answer.
    pub(super) fn ask_again(&mut self, peer: ReplicaSlot) {
        let waiting = self.acceptor.waiting();
        let behind = waiting.flat_map(|(proposal, _)| &proposal.behind);
        let theirs: BTreeSet<ControlName> =
            behind.filter(|name| name.holder == peer).copied().collect();
        self.ask_about(&theirs.into_iter().collect::<Vec<_>>());
    }

    /// Whether this names a control of a previous incarnation that must not be disowned, because some replica may lack
    /// what was done under it.
    pub(super) fn may_be_needed(&self, name: ControlName) -> bool {
        self.previous.is_unsettled() && name.incarnation < self.incarnation
    }
}
