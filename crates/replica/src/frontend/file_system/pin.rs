//! Changes of data: control is held from before the first byte is touched until the change is
//! accounted for. The store says when that is, no matter which caller waits for the change
//! meanwhile.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use control::{ControlName, Position, Update};
use store::{Change, CommitHook, Touched, TouchedKind};
use vfs::{Error, ObjectId, Result};

use super::ReplicatedFileSystem;
use crate::driver::commit_hook::AdmissionHook;
use crate::driver::engine::Guard;
use crate::driver::replica_state::ReplicaState;
use crate::driver::tree::touched_subject;
use crate::frontend::free_space;
use crate::state::locks::Table;

/// What a change does to the content of a file.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// This many bytes, or a hole without any, are new in this range.
    Range(Range<u64>, u64),
    /// There is nothing behind this size any more.
    Cut(u64),
}

/// The commit hook of one change of a file's data.
pub(super) struct DataHook {
    shared: Arc<ReplicaState>,
    pub(super) admission: AdmissionHook,
    file: ObjectId,
    effect: Effect,
    /// The controls that are held for the change.
    under: Table<Option<Vec<ControlName>>>,
    held: AtomicBool,
}

impl DataHook {
    pub(super) fn new(files: &ReplicatedFileSystem, file: ObjectId, effect: Effect) -> DataHook {
        DataHook {
            shared: files.shared.clone(),
            admission: files.hook(),
            file,
            effect,
            under: Table::default(),
            held: AtomicBool::new(false),
        }
    }

    /// Whether control was held for the change: nobody shares a file without a name.
    pub(super) fn held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Accounts for the change and lets its control go, once. Whatever became of it, others are told what the file holds now.
    pub(super) fn finish(&self, succeeded: bool) {
        let under = self.under.lock().take();
        if let Some(under) = under {
            let engine = &self.shared.engine;
            let changed = self.changed(succeeded);
            engine.with_core(|guard| self.account(guard, &under, succeeded, changed));
            engine.ring_contents();
        }
    }

    /// The range in which the content may differ now. Neither a hole nor what failed makes a file longer, however far it was to reach;
    /// what does may not be in its row yet.
    fn changed(&self, succeeded: bool) -> Range<u64> {
        match &self.effect {
            Effect::Range(range, bytes) if *bytes == 0 || !succeeded => {
                let size = self.shared.store.file_size(self.file).unwrap_or(u64::MAX);
                range.start.min(size)..range.end.min(size)
            }
            Effect::Range(range, _) => range.clone(),
            Effect::Cut(_) => 0..u64::MAX,
        }
    }

    fn take_hold(&self, file: Touched) -> Result<()> {
        let update = Update::Change(touched_subject(file));
        let under = self.shared.engine.with_core(|guard| {
            let admission = self.admission.admit(guard, &update)?;
            guard.hold(&admission.under);
            let pin = guard.ledger.pins.entry(file.id).or_default();
            pin.under.extend(&admission.under);
            if let Effect::Cut(size) = self.effect {
                pin.cuts.push(size);
            }
            Ok::<_, Error>(admission.under)
        })?;
        self.held.store(true, Ordering::Release);
        *self.under.lock() = Some(under);
        Ok(())
    }

    fn account(
        &self,
        guard: &mut Guard<'_>,
        under: &[ControlName],
        succeeded: bool,
        changed: Range<u64>,
    ) {
        let file = self.file;
        let mut position = guard.ledger.last_position;
        if let Some(pin) = guard.ledger.pins.get_mut(&file) {
            if pin.position > 0 {
                position = pin.position;
            }
            remove_each(&mut pin.under, under);
            if let Effect::Cut(size) = self.effect {
                remove_each(&mut pin.cuts, &[size]);
            }
            if pin.under.is_empty() {
                guard.ledger.pins.remove(&file);
            }
        }
        let follows = Position(position);
        guard.data_unshipped(file, under);
        let unshipped = &mut guard.ledger.unshipped;
        match &self.effect {
            // Noted when it was committed; a caller that has written since then must not be
            // forgotten.
            Effect::Cut(_) if succeeded => {}
            _ if changed.is_empty() => {}
            _ => unshipped.changed(guard.now, file, changed, follows),
        }
        guard.settle_content(file);
        guard.let_go(under);
        guard.note_complete_without_content(file);
    }
}

impl CommitHook for DataHook {
    fn before_data(&self, file: Touched, has_name: bool) -> Result<()> {
        let is_shared = has_name && file.kind != TouchedKind::Directory;
        if is_shared && !self.shared.engine.is_alone() {
            self.take_hold(file)?;
        }
        match self.effect {
            Effect::Range(_, bytes) if bytes > 0 => {
                let admitted = free_space::admit_bytes(&self.shared, bytes);
                admitted.inspect_err(|_| self.finish(false))
            }
            _ => Ok(()),
        }
    }

    fn after_data(&self, succeeded: bool) {
        self.finish(succeeded);
    }

    fn before_commit(
        &self,
        change: &Change,
        commit: &mut dyn FnMut(Option<&[u8]>) -> Result<u64>,
    ) -> Result<()> {
        self.admission.before_commit(change, commit)
    }
}

/// Takes one occurrence of each item out.
fn remove_each<T: PartialEq>(from: &mut Vec<T>, items: &[T]) {
    for item in items {
        if let Some(at) = from.iter().position(|held| held == item) {
            from.swap_remove(at);
        }
    }
}
