//! What this replica acknowledged, held and proposed before it was started anew.
//!
//! Previous own controls admit nothing more. They stand in others' way, here and elsewhere, until everything
//! made under them is everywhere; then all of them end together, with whatever of theirs was lost: an end
//! that nobody had heard of yet, a proposal that some had granted. How far they are settled is the caller's knowledge.

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

/// A replica has forgotten nothing when it starts for the first time.
pub(super) const FIRST_START: Incarnation = Incarnation(1);

/// How far the end of the previous incarnations' controls has come.
#[derive(Clone, Debug)]
pub(super) enum Previous {
    /// Something made under them may still be missing somewhere.
    Unsettled,
    /// They have ended, and these peers have not noted it.
    Renounced(BTreeSet<ReplicaSlot>),
}

impl Previous {
    /// Whether previous controls may still be needed.
    pub(super) fn is_unsettled(&self) -> bool {
        matches!(self, Previous::Unsettled)
    }

    /// In a new view everybody is told once more of a renunciation: somebody may have noted it, been started
    /// anew, and learnt of the previous controls from somebody who had not noted it yet.
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

    /// Tells a new core of a control that this replica had acknowledged, stably, before it was started
    /// anew; its own previous controls are among them. To be called before any other method.
    pub fn restore(&mut self, tree: &impl Tree, grant: Proposal) {
        self.acceptor.restore(tree, grant);
    }

    /// Tells a new core of a control of another replica that this one had set aside, stably, when it was out of the
    /// view. To be called before any other method.
    pub fn restore_set_aside(&mut self, grant: Proposal) {
        self.set_aside.insert(grant.name, grant);
    }

    /// Whether the controls of previous incarnations have ended, because [`ControlCore::handle_previous_settled`] said that
    /// everything made under them is everywhere. No longer when this replica learns, outside the view, that somebody takes
    /// part who was not asked then: the others may have gone on without it long ago.
    #[must_use]
    pub fn has_renounced(&self) -> bool {
        !self.previous.is_unsettled()
    }

    /// A view without this replica is entered. Who takes part in it and did not in the previous one may lack what others had
    /// when previous controls ended; they stand in its way until the caller has looked again.
    pub(super) fn doubt_renunciation(&mut self, previous: &View) {
        let mut others = self.view.active.iter();
        let unasked = others.any(|other| self.view.is_new(*other, previous));
        if self.view.has_lost(self.slot) && unasked {
            self.previous = Previous::Unsettled;
        }
    }

    /// Everything made under controls of previous incarnations is everywhere: they end, towards everybody.
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

    /// What a peer has to hear again on a new connection.
    pub(super) fn renunciation_for(&self, peer: ReplicaSlot) -> Option<Message> {
        let before = self.incarnation;
        match &self.previous {
            Previous::Renounced(unaware) if unaware.contains(&peer) => {
                Some(Message::Renounce { before })
            }
            _ => None,
        }
    }

    /// A replica that was started anew has forgotten which controls have ended, and one that takes part for the
    /// first time was never told. A proposal that made way for one of those would wait here for ever; so its
    /// holder is asked, and disowns it.
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

    /// Asks a peer once more, since the previous connection may have lost the question or the answer.
    pub(super) fn ask_again(&mut self, peer: ReplicaSlot) {
        let waiting = self.acceptor.waiting();
        let behind = waiting.flat_map(|(proposal, _)| &proposal.behind);
        let theirs: BTreeSet<ControlName> =
            behind.filter(|name| name.holder == peer).copied().collect();
        self.ask_about(&theirs.into_iter().collect::<Vec<_>>());
    }

    /// Whether this names a control of a previous incarnation that must not be disowned, because what was
    /// done under it may be missing somewhere.
    pub(super) fn may_be_needed(&self, name: ControlName) -> bool {
        self.previous.is_unsettled() && name.incarnation < self.incarnation
    }
}
