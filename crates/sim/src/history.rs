//! The decisions of the replicas, in their order: it stands in for the log that a majority keeps.
//!
//! It only refuses decisions that no state may allow. The world decides which replica may propose one, and when
//! replicas learn of it.

use control::{Epoch, Incarnation, ReplicaSlot, View};
use std::collections::BTreeSet;

/// One decision.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// The members from now on.
    View(View),
    /// Everything a lost replica controlled is given up, except the part of its stream that all members have.
    Settled {
        lost: ReplicaSlot,
        through: u64,
        below: Incarnation,
    },
    /// A majority was given up for ever. The view of the remaining replicas follows.
    Recovered,
}

/// A majority that was given up may have settled losses that the remaining replicas do not know:
/// fewer than this number.
const UNHEARD_OF: u64 = 1 << 10;

/// All decisions so far.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub decisions: Vec<Decision>,
}

impl History {
    pub(crate) fn new(first: View) -> History {
        let decisions = vec![Decision::View(first)];
        History { decisions }
    }

    pub(crate) fn len(&self) -> usize {
        self.decisions.len()
    }

    /// The view that is in force after the first `count` decisions.
    pub(crate) fn view(&self, count: usize) -> &View {
        let known = self.decisions[..count].iter().rev();
        let mut views = known.filter_map(|decision| match decision {
            Decision::View(view) => Some(view),
            Decision::Settled { .. } | Decision::Recovered => None,
        });
        views.next().expect("the first decision is a view")
    }

    /// The number of settlements among the first `count` decisions; a decision that gave up a
    /// majority counts as [`UNHEARD_OF`].
    pub(crate) fn settlements(&self, count: usize) -> u64 {
        let known = self.decisions[..count].iter();
        let settlements = known.map(|decision| match decision {
            Decision::View(_) => 0,
            Decision::Settled { .. } => 1,
            Decision::Recovered => UNHEARD_OF,
        });
        settlements.sum()
    }

    /// Whether the first `known` decisions settle what only this replica has, and it has not come back since.
    pub(crate) fn is_settled(&self, lost: ReplicaSlot, known: usize) -> bool {
        let newest = self.decisions[..known].iter().rev();
        let mut said = newest.filter_map(|decision| match decision {
            Decision::Settled { lost: one, .. } => (*one == lost).then_some(true),
            Decision::View(view) => view.active.contains(&lost).then_some(false),
            Decision::Recovered => None,
        });
        said.next().unwrap_or(false)
    }

    /// Whether the first `known` decisions give up a place of a replica's stream.
    pub(crate) fn is_given_up(&self, origin: ReplicaSlot, place: u64, known: usize) -> bool {
        self.decisions[..known].iter().any(|decision| {
            matches!(decision, Decision::Settled { lost, through, .. } if *lost == origin && *through < place)
        })
    }

    /// The newest view.
    pub(crate) fn present(&self) -> &View {
        self.view(self.len())
    }

    /// The newest view without a replica, if at least `least` remain.
    pub(crate) fn without(&self, lost: ReplicaSlot, least: usize) -> Option<View> {
        let mut view = self.next();
        let taken = view.active.remove(&lost);
        (taken && view.active.len() >= least).then_some(view)
    }

    /// The newest view with one more replica, which is configured from then on if it never was.
    pub(crate) fn with(&self, newcomer: ReplicaSlot) -> Option<View> {
        let mut view = self.next();
        let epoch = view.epoch;
        view.configured.insert(newcomer);
        view.since.insert(newcomer, epoch);
        view.active.insert(newcomer).then_some(view)
    }

    /// The newest view, with a member in a later incarnation.
    pub(crate) fn anew(&self, member: ReplicaSlot) -> View {
        let mut view = self.next();
        view.since.insert(member, view.epoch);
        view
    }

    /// The newest view in which some replicas replace others. Only if a majority of the configured replicas is active
    /// in it, and would not be active if the replaced ones only left.
    pub(crate) fn replacing(
        &self,
        out: &BTreeSet<ReplicaSlot>,
        admitted: &BTreeSet<ReplicaSlot>,
    ) -> Option<View> {
        let majority = self.present().majority();
        let mut view = self.next();
        view.active.retain(|slot| !out.contains(slot));
        let needed = view.active.len() < majority;
        for slot in admitted.intersection(&view.configured) {
            view.since.insert(*slot, view.epoch);
            view.active.insert(*slot);
        }
        (needed && view.active.len() >= majority).then_some(view)
    }

    /// The newest view without one replica, which is not configured any more and does not take part.
    pub(crate) fn removing(&self, gone: ReplicaSlot) -> View {
        let mut view = self.next();
        view.configured.remove(&gone);
        view.since.remove(&gone);
        view
    }

    /// Gives up all decisions after the first `known` ones: from then on only the survivors are configured.
    /// `by` takes part if otherwise no replica with contents would.
    pub(crate) fn recover(
        &mut self,
        known: usize,
        survivors: &BTreeSet<ReplicaSlot>,
        by: ReplicaSlot,
        holds_data: impl Fn(ReplicaSlot) -> bool,
    ) {
        self.decisions.truncate(known);
        let mut view = self.next();
        self.decisions.push(Decision::Recovered);
        view.configured.clone_from(survivors);
        view.active.retain(|slot| survivors.contains(slot));
        view.since.retain(|slot, _| survivors.contains(slot));
        if !view.active.iter().any(|slot| holds_data(*slot)) {
            view.active.insert(by);
            view.since.insert(by, view.epoch);
        }
        self.decisions.push(Decision::View(view));
    }

    fn next(&self) -> View {
        let mut view = self.present().clone();
        view.epoch = Epoch(view.epoch.0 + 1);
        view
    }
}
