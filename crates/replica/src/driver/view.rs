//! The view in force as the core uses it: which replicas take part, which keep contents, and which have reported.
//!
//! What must never enter: how views are agreed, and the lease (`lease_state`).

use std::collections::BTreeSet;

use control::View;
use vfs::ReplicaSlot;

use crate::driver::engine::Engine;

impl Engine {
    /// A view is in force. `witnesses` are members that keep no contents; `before` is the previous view.
    pub(crate) fn enter_view(&self, view: &View, witnesses: BTreeSet<ReplicaSlot>, before: &View) {
        self.with_core(|guard| {
            guard.ledger.active = view.active.clone();
            guard.ledger.voters = view.configured.clone();
            guard.ledger.witnesses = witnesses;
            if !before.active.contains(&self.slot) {
                // Contents handed over to all replicas that take part now need no control. This replica may report remembered controls that have
                // ended; those would end what a lost replica has won since.
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

    /// Another copy has replaced the local one.
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

    /// The number of the view that the core uses, and whether every member of it has reported.
    pub(crate) fn epoch_and_settled(&self) -> (u64, bool) {
        self.with_core(|guard| (guard.epoch().0, guard.is_settled()))
    }

    /// Whether, as far as this replica knows, the configuration of the set may change again: all replicas know every control here, and have the
    /// updates of earlier configurations, with their contents if `contents`.
    pub(crate) fn is_steady(&self, contents: bool) -> bool {
        self.with_core(|guard| guard.is_steady_with(contents))
    }

    /// The replicas that take part and keep contents, including this one.
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
}
