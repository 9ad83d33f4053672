//! Admission at the last moment: the store asks here before it commits a change that replicas share.
//!
//! The change is looked at as it will be, with nobody else changing rows; so there is nothing to check
//! again after waiting. What is not covered by own control is refused and submitted to the core.

use control::{ControlName, Position, Update};
use store::{Change, CommitHook, Touched, TouchedKind};
use vfs::{Error, ObjectId, Result};

use crate::driver::tree::touched_subject;
use crate::driver::turn::{Engine, Turn};
use crate::state::wire::{self, Note, Origin};

tokio::task_local! {
    /// The forwarded request that is being carried out.
    pub(crate) static ORIGIN: Origin;
}

impl CommitHook for Engine {
    fn before_commit(
        &self,
        change: &Change,
        commit: &mut dyn FnMut(Option<&[u8]>) -> Result<u64>,
    ) -> Result<()> {
        if self.is_alone() {
            return commit(None).map(|_| ());
        }
        if !self.standing.may_answer() {
            return Err(Error::Delay);
        }
        let origin = ORIGIN.try_with(|origin| *origin).ok();
        if origin.is_some_and(|origin| self.outcomes.is_over(&origin)) {
            // Its client may have been told already that nothing came of it.
            return Err(Error::Delay);
        }
        self.turn(|turn| {
            let update = update_of(change);
            let under = self.admit(turn, change, &update)?;
            let inherited = match change {
                Change::Create { parent, made } => {
                    let subject = touched_subject(*made);
                    turn.created(made.id, subject, *parent)
                }
                _ => None,
            };
            let note = Note {
                under: under.clone(),
                inherited: inherited.clone(),
                origin,
                data: changed_data(turn, change),
                after: turn
                    .ledger
                    .heard
                    .iter()
                    .map(|(slot, at)| (slot.0, *at))
                    .collect(),
            };
            let position = commit(Some(&wire::encode(&note)))?;
            turn.ledger.last_position = position;
            report_links(turn, change);
            let born_under = inherited.iter().map(|control| control.name);
            let under: Vec<ControlName> = under.into_iter().chain(born_under).collect();
            turn.updated(&update, &under, Position(position));
            note_contents(turn, change, position, &under);
            turn.notifies = true;
            Ok(())
        })
    }

    fn keeps_removed(&self) -> bool {
        !self.is_alone()
    }
}

impl Engine {
    /// The controls that cover the change, or a refusal.
    fn admit(
        &self,
        turn: &mut Turn<'_>,
        change: &Change,
        update: &Update,
    ) -> Result<Vec<ControlName>> {
        if let Change::Object(touched) | Change::Data(touched) = change
            && let Some(pin) = turn.ledger.pins.get(&touched.id)
        {
            let mut under = pin.under.clone();
            under.sort_unstable();
            under.dedup();
            return Ok(under);
        }
        match turn.try_admit(update) {
            Some(admission) => {
                self.demand(admission.after);
                Ok(admission.under)
            }
            None => Err(turn.submit(update)),
        }
    }
}

/// What the change is to replication control.
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

/// The file whose data is being changed by this, if others are to get it.
fn changed_data(turn: &Turn<'_>, change: &Change) -> Option<ObjectId> {
    match change {
        Change::Data(touched)
            if turn.ledger.pins.contains_key(&touched.id)
                || turn.ledger.renewing.contains(&touched.id) =>
        {
            Some(touched.id)
        }
        _ => None,
    }
}

/// Tells the core which links the change made and undid.
fn report_links(turn: &mut Turn<'_>, change: &Change) {
    match *change {
        Change::Object(_) | Change::Data(_) => {}
        Change::Create { parent, made } => turn.link(made.id, parent, true),
        Change::Remove { parent, removed } => turn.link(removed.id, parent, false),
        Change::Link { file, parent } => turn.link(file.id, parent, true),
        Change::Rename {
            from,
            to,
            moved,
            replaced,
        } => {
            turn.tree.parents.forget(moved.id);
            if let Some(replaced) = replaced {
                turn.link(replaced.id, to, false);
            }
            if from != to {
                turn.link(moved.id, from, false);
                turn.link(moved.id, to, true);
            }
        }
    }
}

/// Keeps account of which file contents others lack.
fn note_contents(turn: &mut Turn<'_>, change: &Change, position: u64, under: &[ControlName]) {
    match change {
        Change::Object(touched) if touched.kind == TouchedKind::Directory => {
            turn.ledger.durability.forget(Some(touched.id));
        }
        Change::Data(touched) => {
            if turn.ledger.renewing.contains(&touched.id) {
                let (now, follows) = (turn.now, Position(position));
                let unshipped = &mut turn.ledger.unshipped;
                unshipped.changed(now, touched.id, 0..u64::MAX, follows);
                turn.data_unshipped(touched.id, under);
            }
            let Some(pin) = turn.ledger.pins.get_mut(&touched.id) else {
                return;
            };
            pin.position = position;
            if let Some(size) = pin.cuts.iter().min() {
                let follows = Position(position);
                turn.ledger.unshipped.cut(touched.id, *size, follows);
            }
            turn.data_unshipped(touched.id, under);
        }
        Change::Create { made, .. } if made.kind == TouchedKind::File => {
            turn.ledger.births.insert(made.id, position);
        }
        Change::Remove { removed, .. } => gone(turn, *removed, position),
        Change::Rename {
            replaced: Some(replaced),
            ..
        } => gone(turn, *replaced, position),
        _ => {}
    }
}

/// A file has lost its only name: nobody else needs its content any more. Who has it open elsewhere comes here for it.
fn gone(turn: &mut Turn<'_>, removed: Touched, position: u64) {
    if removed.kind != TouchedKind::File {
        return;
    }
    if turn.tree.store.orphan_home(removed.id).is_some() {
        turn.ledger.removed.insert((position, removed.id));
    }
    turn.ledger.births.remove(removed.id);
    turn.ledger.confirmed_by_all(removed.id);
    turn.ledger.unshipped.removed(removed.id);
    turn.settle_content(removed.id);
}
