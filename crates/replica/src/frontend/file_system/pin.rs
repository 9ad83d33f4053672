//! Changes of data: control is held from before the first byte is touched until the change is accounted for. The store says when that is, no
//! matter which caller waits for the change.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use control::ControlName;
use store::{Change, CommitHook, Touched, TouchedKind};
use vfs::{Error, ObjectId, Result};

use super::ReplicatedFileSystem;
use crate::driver::changes::DataChange;
use crate::driver::commit_hook::AdmissionHook;
use crate::driver::local_replica::LocalReplica;
use crate::frontend::free_space;
use crate::state::locks::Table;

/// What a change does to the content of a file.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// This many bytes are new in this range; none for a hole.
    Range(Range<u64>, u64),
    /// Nothing is left after this size.
    Cut(u64),
}

/// The commit hook of one change of a file's data.
pub(super) struct DataHook {
    replica: Arc<LocalReplica>,
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
            replica: files.replica.clone(),
            admission: files.hook(),
            file,
            effect,
            under: Table::default(),
            held: AtomicBool::new(false),
        }
    }

    /// Whether control was held for the change. A file without a name is not shared, and needs none.
    pub(super) fn held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Accounts for the change and releases its control, once. Even after a failure, others are told what the file holds now.
    pub(super) fn finish(&self, succeeded: bool) {
        let under = self.under.lock().take();
        if let Some(under) = under {
            let change = self.change(succeeded);
            self.replica.engine.account_for(self.file, &under, change);
        }
    }

    /// What the content is now. A hole or a failed change does not make a file longer. A change that does may not be in its row yet.
    fn change(&self, succeeded: bool) -> DataChange {
        match &self.effect {
            Effect::Range(range, bytes) if *bytes == 0 || !succeeded => {
                let size = self.replica.store.file_size(self.file).unwrap_or(u64::MAX);
                DataChange::Range(range.start.min(size)..range.end.min(size))
            }
            Effect::Range(range, _) => DataChange::Range(range.clone()),
            Effect::Cut(size) => DataChange::Cut {
                size: *size,
                succeeded,
            },
        }
    }

    /// Whether the content that is to be changed is damaged, unless another replica decides about it, or nothing is left of it.
    fn is_damaged_here(&self) -> bool {
        !matches!(self.effect, Effect::Cut(0))
            && self.replica.store.is_damaged(self.file)
            && self.replica.engine.foreign_primary(self.file).is_none()
    }

    fn take_hold(&self, file: Touched) -> Result<()> {
        let cut = match self.effect {
            Effect::Cut(size) => Some(size),
            Effect::Range(..) => None,
        };
        let engine = &self.replica.engine;
        let under = engine.hold_for_change(&self.admission, file, cut)?;
        self.held.store(true, Ordering::Release);
        *self.under.lock() = Some(under);
        Ok(())
    }
}

impl CommitHook for DataHook {
    fn before_data(&self, file: Touched, has_name: bool) -> Result<()> {
        let is_shared = has_name && file.kind != TouchedKind::Directory;
        if is_shared && self.is_damaged_here() {
            // Control has come here since that was looked at.
            return Err(Error::Delay);
        }
        if is_shared && !self.replica.engine.is_alone() {
            self.take_hold(file)?;
        }
        match self.effect {
            Effect::Range(_, bytes) if bytes > 0 => {
                let admitted = free_space::admit_bytes(&self.replica, bytes);
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
