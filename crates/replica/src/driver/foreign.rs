//! Input from other replicas: messages of their cores, and their updates, which are applied when their controls are known here.
//!
//! What must never enter: how streams are received, and rows.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use control::{ControlName, Envelope, Epoch, Subject};
use store::LinkChange;
use vfs::{ObjectId, ReplicaSlot, Result};

use crate::driver::engine::{Engine, Guard};
use crate::driver::local_replica::LocalReplica;
use crate::state::arrivals::Awaits;
use crate::state::wire::Record;

/// The rule that decides whether an update may be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The controls it was made under have been granted here.
    Controls,
    /// Everything that its primary had applied when it made it has been applied here: this replica ignores controls.
    Order,
    /// It may not be applied for now.
    Wait,
}

/// An update of another primary that is to be applied here.
pub(crate) struct Foreign<'a, R> {
    pub(crate) from: ReplicaSlot,
    /// The view of the primary when it sent the update, or a later one.
    pub(crate) epoch: u64,
    /// The update; its rows and the list of files whose data it changes are not read from it.
    pub(crate) record: &'a Record,
    /// Files whose data it changes, if contents are kept here.
    pub(crate) changed: &'a [ObjectId],
    /// Objects whose rows it changes.
    pub(crate) objects: &'a [ObjectId],
    /// Whether it sets extended attributes.
    pub(crate) sets_attributes: bool,
    /// The rule that admits it; evaluated while the core is locked.
    pub(crate) rule: R,
}

impl Engine {
    /// A message of another replica's core.
    pub(crate) fn message(&self, from: ReplicaSlot, envelope: Envelope) {
        self.with_core(|guard| {
            guard.message(from, envelope);
            guard.notifies = true;
        });
    }

    /// A peer may not have got what the core said to it.
    pub(crate) fn connected(&self, peer: ReplicaSlot) {
        self.with_core(|guard| guard.connected(peer));
    }

    /// Whether another replica than the sender of a file's contents is primary by now. `initial`: they belong to a copy with which this replica
    /// begins.
    pub(crate) fn is_superseded(&self, from: ReplicaSlot, file: ObjectId, initial: bool) -> bool {
        self.with_core(|guard| {
            if guard.controls(Subject::File(file)) {
                return true;
            }
            let foreign = guard.foreign_control(file);
            // A file that a lost replica controls is supplied by the replica that has the most of it.
            let active = &guard.ledger.active;
            let foreign =
                foreign.filter(|name| name.holder != from && active.contains(&name.holder));
            let Some(foreign) = foreign else {
                return false;
            };
            // Deep control elsewhere does not mean that the file was changed there lately, and its first copy comes from the replica that supplies
            // the tree.
            let mut grants = guard.acknowledged();
            !initial
                || grants.any(|grant| {
                    let mut claims = grant.claims.iter();
                    grant.name == foreign && claims.any(|claim| claim.object == file)
                })
        })
    }
}

impl LocalReplica {
    /// Returns when an update may be applied, or `is_over`.
    pub(crate) async fn until_applicable<R: Fn() -> Rule>(
        &self,
        update: &Foreign<'_, R>,
        is_over: impl Fn() -> bool,
    ) {
        let may_go_on = |guard: &mut Guard<'_>| is_over() || self.may_apply(guard, update);
        self.engine
            .until_core(|guard| may_go_on(guard).then_some(()))
            .await;
    }

    /// Commits an update, and tells the core in the same step what it has changed: the core knows each committed update. Returns whether it was
    /// committed; it is not if it may no longer be applied.
    ///
    /// # Errors
    /// Those of `commit`.
    pub(crate) fn commit_foreign<R: Fn() -> Rule>(
        &self,
        update: &Foreign<'_, R>,
        links: &[LinkChange],
        commit: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        let (from, record) = (update.from, update.record);
        self.engine.with_core(|guard| {
            let given_up = self.is_given_up(from);
            if !self.may_apply(guard, update) || given_up {
                return Ok(false);
            }
            commit()?;
            guard.ledger.heard.insert(from, record.position);
            let own = (self.slot(), self.state.incarnation);
            (self.state.outcomes).note_applied(own, &record.origins, record.position);
            if !self.lease.is_up_to_date() {
                self.state.writers.note(from, update.changed);
            }
            for change in links {
                guard.tree.parents.forget(change.object);
            }
            for change in links {
                guard.link(change.object, change.parent, change.added);
            }
            let inherited = record.inherited.iter().filter(|_| self.takes_part());
            for control in inherited {
                guard.ledger.read_past.is_born(control.name);
                guard.inherited(from, control.clone());
            }
            if update.sets_attributes {
                guard.ledger.durability.forget(None);
            }
            let objects = update.objects.iter();
            objects.for_each(|file| guard.give_up_previous_of(*file));
            guard.notifies = true;
            Ok(true)
        })
    }

    fn may_apply<R: Fn() -> Rule>(&self, guard: &mut Guard<'_>, update: &Foreign<'_, R>) -> bool {
        let record = update.record;
        let awaits = match (update.rule)() {
            Rule::Controls => {
                let granted = may_apply_under(guard, &record.under, self.has_readers());
                (!granted).then_some(Awaits::Controls)
            }
            Rule::Order => self.missing_before(guard, update.epoch, &record.after),
            Rule::Wait => Some(Awaits::Settlement),
        };
        if let Some(awaits) = awaits
            && let Some(inbox) = self.state.inboxes.get(update.from)
        {
            inbox.note_awaits(awaits);
        }
        awaits.is_none() && guard.ledger.read_past.has_ended(&record.under)
    }

    /// What the primary of an update had applied when it made it, and this replica has not. Without controls, this alone keeps updates of one object
    /// by several primaries in order. `epoch` is the view of the primary when it sent the update, or a later one.
    fn missing_before(
        &self,
        guard: &Guard<'_>,
        epoch: u64,
        after: &[(u16, u64)],
    ) -> Option<Awaits> {
        let heard = &guard.ledger.heard;
        // The stream may have been applied here up to a place without an update, where a copy of it was taken.
        let has = |slot: ReplicaSlot, position: u64| {
            heard.get(&slot).is_some_and(|heard| *heard >= position)
                || (self.state.inboxes.get(slot)).is_some_and(|inbox| inbox.applied() >= position)
        };
        let mut missing = after.iter().filter(|(slot, position)| {
            let slot = ReplicaSlot(*slot);
            slot != self.slot() && *position > 0 && !has(slot, *position)
        });
        let (maker, through) = missing.next()?;
        let maker = ReplicaSlot(*maker);
        if is_lost(maker, guard.epoch(), &guard.ledger.active, Epoch(epoch)) && !self.takes_part() {
            // No replica sends it any more; it is relayed only to replicas that take part. An earlier view does not tell: the replica may have come
            // back since.
            self.state.needs_copy.store(true, Ordering::Release);
        }
        Some(Awaits::Updates(maker, *through))
    }
}

/// Whether the maker of an update is known to be lost, in the view in force here, to a replica that has heard of the update in a view. Before a view
/// is in force here, no maker is.
fn is_lost(
    maker: ReplicaSlot,
    epoch: Epoch,
    active: &BTreeSet<ReplicaSlot>,
    heard_in: Epoch,
) -> bool {
    epoch > Epoch(0) && epoch >= heard_in && !active.contains(&maker)
}

/// Whether the controls of the update have been granted here; if not, they are at least given priority. If clients read past this replica, controls
/// granted by that count later: they are on record when the core is unlocked.
fn may_apply_under(guard: &mut Guard<'_>, under: &[ControlName], has_readers: bool) -> bool {
    if guard.may_apply(under) {
        return true;
    }
    guard.update_waiting(under);
    !has_readers && guard.may_apply(under)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two replicas that were started together heard of each other's updates before either knew the view, and one gave its copy up.
    #[test]
    fn nobody_counts_as_lost_before_a_view_is_known() {
        let (first, second) = (ReplicaSlot(1), ReplicaSlot(2));
        let view = BTreeSet::from([first]);
        let none = BTreeSet::new();
        assert!(!is_lost(second, Epoch(0), &none, Epoch(0)));
        assert!(is_lost(second, Epoch(3), &view, Epoch(0)));
        assert!(is_lost(second, Epoch(3), &view, Epoch(3)));
        assert!(
            !is_lost(second, Epoch(3), &view, Epoch(4)),
            "it may be back"
        );
        assert!(!is_lost(first, Epoch(3), &view, Epoch(3)));
    }
}
