//! Admission at the last moment: the store asks here before it commits a change that replicas share.
//!
//! Each operation brings its own hook, which knows for which request the operation runs, and keeps the verdict until the operation asks for it. The
//! hook sees the final change, while no other change of rows is possible, so nothing has to be checked again after waiting. A change without control
//! of this replica is refused and submitted to the core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use control::{Admission, Asker, ControlName, Position, Update};
use store::{Change, CommitHook, Touched, TouchedKind};
use vfs::{Error, ObjectId, Result};

use crate::driver::control::Admitted;
use crate::driver::engine::{Engine, Guard};
use crate::driver::tree::touched_subject;
use crate::state::ledger::PendingVerdict;
use crate::state::locks::Table;
use crate::state::wire::{self, Note, Origin};

/// The commit hook of one operation.
pub(crate) struct AdmissionHook {
    engine: Arc<Engine>,
    /// The forwarded request that is being carried out.
    origin: Option<Origin>,
    refused: Table<Option<PendingVerdict>>,
    asked: AtomicBool,
}

impl AdmissionHook {
    pub(crate) fn new(engine: &Arc<Engine>, origin: Option<Origin>) -> AdmissionHook {
        AdmissionHook {
            engine: engine.clone(),
            origin,
            refused: Table::default(),
            asked: AtomicBool::new(false),
        }
    }

    /// Whether the operation has changed, or would have changed, what replicas share; a file without a name is not shared.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// The verdict to wait for, if the operation was refused because control is not here yet.
    pub(crate) fn take_refusal(&self) -> Option<PendingVerdict> {
        let mut refused = self.refused.lock();
        refused.take()
    }

    /// The controls that cover an update. The error is the store's answer to a refused operation.
    pub(super) fn admit(&self, guard: &mut Guard<'_>, update: &Update) -> Result<Admission> {
        let asker = match self.origin {
            Some(_) => Asker::Other,
            None => Asker::Own,
        };
        match guard.admit(update, asker) {
            Admitted::Now(admission) => {
                self.engine.demand(admission.after);
                Ok(admission)
            }
            Admitted::Later(verdict) => {
                let mut refused = self.refused.lock();
                *refused = Some(verdict);
                Err(Error::Delay)
            }
            Admitted::Never => Err(Error::Delay),
        }
    }

    /// The controls that cover a change.
    fn admit_change(
        &self,
        guard: &mut Guard<'_>,
        change: &Change,
        update: &Update,
    ) -> Result<Vec<ControlName>> {
        if let Change::Object(touched) | Change::Data(touched) = change
            && let Some(pin) = guard.ledger.pins.get(&touched.id)
        {
            let mut under = pin.under.clone();
            under.sort_unstable();
            under.dedup();
            return Ok(under);
        }
        Ok(self.admit(guard, update)?.under)
    }
}

impl CommitHook for AdmissionHook {
    fn before_commit(
        &self,
        change: &Change,
        commit: &mut dyn FnMut(Option<&[u8]>) -> Result<u64>,
    ) -> Result<()> {
        self.asked.store(true, Ordering::Release);
        let engine = &self.engine;
        if engine.is_alone() {
            return commit(None).map(|_| ());
        }
        if !engine.lease.may_answer() {
            return Err(Error::Delay);
        }
        let origin = self.origin;
        if origin.is_some_and(|origin| engine.outcomes.is_over(&origin)) {
            // Its client may already have been told that it was not carried out.
            return Err(Error::Delay);
        }
        engine.with_core(|guard| {
            let update = update_of(change);
            let under = self.admit_change(guard, change, &update)?;
            let inherited = match change {
                Change::Create { parent, made } => {
                    let subject = touched_subject(*made);
                    guard.created(made.id, subject, *parent)
                }
                _ => None,
            };
            let note = Note {
                under: under.clone(),
                inherited: inherited.clone(),
                origin,
                data: changed_data(guard, change),
                after: guard
                    .ledger
                    .heard
                    .iter()
                    .map(|(slot, at)| (slot.0, *at))
                    .collect(),
            };
            let position = commit(Some(&wire::encode(&note)))?;
            guard.ledger.last_position = position;
            report_links(guard, change);
            let born_under = inherited.iter().map(|control| control.name);
            let under: Vec<ControlName> = under.into_iter().chain(born_under).collect();
            guard.updated(&update, &under, Position(position));
            note_contents(guard, change, position, &under);
            guard.notifies = true;
            Ok(())
        })
    }
}

/// The kind of the change for replication control.
fn update_of(change: &Change) -> Update {
    match *change {
        Change::Object(touched) | Change::Data(touched) => Update::Change(touched_subject(touched)),
        Change::Create { parent, .. } => Update::Create { parent },
        Change::Remove { parent, removed } => Update::Remove {
            parent,
            removed: touched_subject(removed),
        },
        Change::Link { file, parent } => Update::Link {
            file: file.id,
            parent,
        },
        Change::Rename {
            from,
            to,
            moved,
            replaced,
        } => Update::Rename {
            from,
            to,
            moved: touched_subject(moved),
            replaced: replaced.map(touched_subject),
        },
    }
}

/// The file whose data this changes, if others need the data.
fn changed_data(guard: &Guard<'_>, change: &Change) -> Option<ObjectId> {
    match change {
        Change::Data(touched)
            if guard.ledger.pins.contains_key(&touched.id)
                || guard.ledger.renewing.contains_key(&touched.id) =>
        {
            Some(touched.id)
        }
        _ => None,
    }
}

/// Tells the core which links the change made and removed.
fn report_links(guard: &mut Guard<'_>, change: &Change) {
    match *change {
        Change::Object(_) | Change::Data(_) => {}
        Change::Create { parent, made } => guard.link(made.id, parent, true),
        Change::Remove { parent, removed } => guard.link(removed.id, parent, false),
        Change::Link { file, parent } => guard.link(file.id, parent, true),
        Change::Rename {
            from,
            to,
            moved,
            replaced,
        } => {
            guard.tree.parents.forget(moved.id);
            if let Some(replaced) = replaced {
                guard.link(replaced.id, to, false);
            }
            if from != to {
                guard.link(moved.id, from, false);
                guard.link(moved.id, to, true);
            }
        }
    }
}

/// Notes which file contents others lack.
fn note_contents(guard: &mut Guard<'_>, change: &Change, position: u64, under: &[ControlName]) {
    match change {
        Change::Object(touched) if touched.kind == TouchedKind::Directory => {
            guard.ledger.durability.forget(Some(touched.id));
        }
        Change::Data(touched) => {
            if guard.ledger.renewing.contains_key(&touched.id) {
                let (now, follows) = (guard.now, Position(position));
                let unshipped = &mut guard.ledger.unshipped;
                // It has a new version, and perhaps the bytes that the others have.
                unshipped.suspected(now, touched.id, follows);
                guard.data_unshipped(touched.id, under);
            }
            let Some(pin) = guard.ledger.pins.get_mut(&touched.id) else {
                return;
            };
            pin.position = position;
            if let Some(size) = pin.cuts.iter().min() {
                let follows = Position(position);
                guard.ledger.unshipped.cut(touched.id, *size, follows);
            }
            guard.data_unshipped(touched.id, under);
        }
        Change::Create { made, .. } if made.kind == TouchedKind::File => {
            guard.ledger.births.insert(made.id, position);
        }
        Change::Remove { removed, .. } => gone(guard, *removed, position),
        Change::Rename {
            replaced: Some(replaced),
            ..
        } => gone(guard, *replaced, position),
        _ => {}
    }
}

/// A file has lost its only name: no other replica needs its content any more. Clients elsewhere that have it open read it here.
fn gone(guard: &mut Guard<'_>, removed: Touched, position: u64) {
    if removed.kind != TouchedKind::File {
        return;
    }
    if guard.tree.store.orphan_home(removed.id).is_some() {
        guard.ledger.removed.insert((position, removed.id));
    }
    guard.ledger.births.remove(removed.id);
    guard.ledger.confirmed_by_all(removed.id);
    guard.ledger.unshipped.removed(removed.id);
    guard.settle_content(removed.id);
}
