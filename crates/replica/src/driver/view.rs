//! The view in force as the core goes by it: who takes part, who keeps contents, and who has reported.
//!
//! What must never enter: how views are agreed, and the lease (`lease_state`).

use std::collections::BTreeSet;

use control::View;
use vfs::ReplicaSlot;

use crate::driver::engine::Engine;

impl Engine {
    /// A view is in force. `witnesses` are members that keep no contents; `before` is the view that it follows.
    pub(crate) fn enter_view(&self, view: &View, witnesses: BTreeSet<ReplicaSlot>, before: &View) {
        self.with_core(|guard| {
            guard.ledger.active = view.active.clone();
            guard.ledger.voters = view.configured.clone();
            guard.ledger.witnesses = witnesses;
            if !before.active.contains(&self.slot) {
                // What is handed over to all who take part now is none of the controls that this replica reports, which it
                // may remember although they have ended: they would end what a lost one has won since.
                guard.settle_all_contents();
            }
            if before.configured != view.configured || guard.ledger.configured_at.is_none() {
                guard.ledger.configured_at = Some((guard.now, guard.ledger.last_position));
            }
            guard.put_off_telling();
            guard.view_changed(view.clone());
            guard.look_at_previous();
            guard.notifies = true;
        });
    }

    /// The local copy is another one than before.
    pub(crate) fn tree_replaced(&self) {
        self.with_core(|guard| {
            guard.tree_replaced();
            guard.notifies = true;
        });
    }

    /// Whether every member of the view has reported what it acknowledged before.
    pub(crate) fn is_settled(&self) -> bool {
        self.with_core(|guard| guard.is_settled())
    }

    /// The number of the view that the core goes by, and whether every member of it has reported.
    pub(crate) fn epoch_and_settled(&self) -> (u64, bool) {
        self.with_core(|guard| (guard.epoch().0, guard.is_settled()))
    }

    /// Whether the configuration of the set may change again, as far as this replica knows: everybody knows every control here, and has the
    /// updates of earlier configurations, with their contents if `contents`.
    pub(crate) fn is_steady(&self, contents: bool) -> bool {
        self.with_core(|guard| guard.is_steady_with(contents))
    }

    /// Those who take part and keep contents, this replica among them.
    pub(crate) fn keepers(&self) -> BTreeSet<ReplicaSlot> {
        self.with_core(|guard| {
            let ledger = &guard.ledger;
            let keepers = ledger.active.difference(&ledger.witnesses);
            keepers.copied().collect()
        })
    }

    /// Whether a replica is one of them.
    pub(crate) fn is_keeper(&self, slot: ReplicaSlot) -> bool {
        self.with_core(|guard| {
            let ledger = &guard.ledger;
            ledger.active.contains(&slot) && !ledger.witnesses.contains(&slot)
        })
    }

    /// Members that keep no contents.
    pub(crate) fn witnesses(&self) -> BTreeSet<ReplicaSlot> {
        self.with_core(|guard| guard.ledger.witnesses.clone())
    }

    /// Whether any of these takes part.
    pub(crate) fn is_any_active(&self, slots: &[ReplicaSlot]) -> bool {
        self.with_core(|guard| slots.iter().any(|slot| guard.ledger.active.contains(slot)))
    }
}
