//! Changes of files' data: control is held, and the file is pinned, from before the first byte changes until the change is accounted for.
//!
//! What must never enter: when the store changes data, and how contents are sent.

use std::collections::hash_map::Entry;
use std::ops::Range;

use control::{ControlName, Position, Update};
use store::Touched;
use vfs::{Error, ObjectId, Result};

use crate::driver::commit_hook::AdmissionHook;
use crate::driver::engine::Engine;
use crate::driver::tree::touched_subject;

/// The effect of a change on the content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataChange {
    /// The content may differ in this range, which may be empty.
    Range(Range<u64>),
    /// It was cut to this size, or should have been.
    Cut { size: u64, succeeded: bool },
}

impl Engine {
    /// Holds the controls that cover a change of a file's data, and pins the file; `cut` is the size to which it is cut. Returns the controls, for
    /// [`Engine::account_for`].
    ///
    /// # Errors
    /// The store's error for a refused operation; the hook has the verdict to wait for.
    pub(crate) fn hold_for_change(
        &self,
        hook: &AdmissionHook,
        file: Touched,
        cut: Option<u64>,
    ) -> Result<Vec<ControlName>> {
        let update = Update::Change(touched_subject(file));
        self.with_core(|guard| {
            let admission = hook.admit(guard, &update)?;
            guard.hold(&admission.under);
            let pin = guard.ledger.pins.entry(file.id).or_default();
            pin.under.extend(&admission.under);
            pin.cuts.extend(cut);
            Ok::<_, Error>(admission.under)
        })
    }

    /// Notes what others lack after a change of a file's data, and releases the controls that were held for it.
    pub(crate) fn account_for(&self, file: ObjectId, under: &[ControlName], change: DataChange) {
        self.with_core(|guard| {
            let mut position = guard.ledger.last_position;
            if let Some(pin) = guard.ledger.pins.get_mut(&file) {
                if pin.position > 0 {
                    position = pin.position;
                }
                remove_each(&mut pin.under, under);
                if let DataChange::Cut { size, .. } = change {
                    remove_each(&mut pin.cuts, &[size]);
                }
                if pin.under.is_empty() {
                    guard.ledger.pins.remove(&file);
                }
            }
            let changed = match change {
                DataChange::Range(range) => range,
                // Noted at the commit; the write of another caller since then must not be forgotten.
                DataChange::Cut {
                    succeeded: true, ..
                } => 0..0,
                DataChange::Cut { .. } => 0..u64::MAX,
            };
            guard.data_unshipped(file, under);
            if !changed.is_empty() {
                let (now, follows) = (guard.now, Position(position));
                guard.ledger.unshipped.changed(now, file, changed, follows);
            }
            guard.settle_content(file);
            guard.let_go(under);
            guard.note_complete_without_content(file);
        });
        self.notify_of_contents();
    }

    /// A file is getting a new version, with all the data that is here.
    pub(crate) fn begin_renewing(&self, file: ObjectId) {
        self.with_core(|guard| *guard.ledger.renewing.entry(file).or_default() += 1);
    }

    /// It has got it, or has failed to.
    pub(crate) fn end_renewing(&self, file: ObjectId, renewed: bool) {
        self.with_core(|guard| {
            if let Entry::Occupied(mut attempts) = guard.ledger.renewing.entry(file) {
                *attempts.get_mut() -= 1;
                if *attempts.get() == 0 {
                    attempts.remove();
                }
            }
            if renewed {
                guard.settle_content(file);
            }
        });
        if renewed {
            self.notify_of_contents();
        }
    }
}

/// Removes one occurrence of each item.
fn remove_each<T: PartialEq>(from: &mut Vec<T>, items: &[T]) {
    for item in items {
        if let Some(at) = from.iter().position(|held| held == item) {
            from.swap_remove(at);
        }
    }
}
