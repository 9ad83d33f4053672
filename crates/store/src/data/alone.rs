//! Files whose size another primary has changed.
//!
//! As with a local change of size (`resize.rs`), the row comes first and has to be stable before the
//! data file is cut. Only tasks that want the same file wait for that.

use std::sync::Arc;

use vfs::{Error, ObjectId, Result};

use super::guards::Exclusive;
use super::write::Writing;
use crate::committer::Ticket;
use crate::open_store::{OpenStore, blocking};
use crate::rows::ObjectRow;

/// A file whose size changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Resized {
    pub(crate) id: ObjectId,
    /// Its new size.
    pub(crate) size: u64,
    /// Whether the new size is smaller.
    pub(crate) shrinks: bool,
}

/// A file that no other task reads or writes, and that has no data behind its size.
pub(crate) struct Alone {
    id: ObjectId,
    shrinks: bool,
    /// The disk has changed the block in which the file will end.
    is_changed: bool,
    guard: Exclusive,
}

impl Alone {
    /// Whether this is the file, prepared for this change of size.
    pub(crate) fn covers(&self, resized: Resized) -> bool {
        self.id == resized.id && (self.shrinks || !resized.shrinks)
    }

    /// The file, if the disk has changed its last block: the rest of that block must not pass as correct.
    pub(crate) fn changed(&self) -> Option<ObjectId> {
        self.is_changed.then_some(self.id)
    }
}

impl OpenStore {
    /// Waits until all other tasks leave a file, and prepares it for another size.
    pub(crate) async fn have_alone(self: &Arc<Self>, resized: Resized) -> Result<Alone> {
        let Resized { id, size, shrinks } = resized;
        let guard = self.guards.exclude(id).await;
        let mut is_changed = false;
        match self.object(id) {
            Ok(row) if row.file().is_ok() && self.may_have_data(id, &row) => {
                if !self.tail_is_clean(id, &row) {
                    self.cut_tail(&guard, id, row.size).await?;
                }
                if !shrinks {
                    self.settle_cut(id).await?;
                }
                if shrinks && !self.dirty.kept(id).is_empty() {
                    // The change of size removes the kept writes, so their data has to be stable.
                    self.stabilise(id).await?;
                }
                if shrinks {
                    let checked = self.check_split(id, &[size]).await;
                    is_changed = matches!(checked, Err(Error::Io(_)));
                }
            }
            Ok(_) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
        Ok(Alone {
            id,
            shrinks,
            is_changed,
            guard,
        })
    }

    /// Whether a data file can exist, recorded in the row or not.
    pub(crate) fn may_have_data(&self, id: ObjectId, row: &ObjectRow) -> bool {
        row.file().is_ok_and(|file| file.stored) || self.dirty.contains(id)
    }

    /// Cuts the data files that became shorter, once the rows are stable. Until then no other task can use them.
    pub(crate) fn cut_behind(self: &Arc<Self>, alone: Vec<Alone>, ticket: Ticket) {
        let shorter: Vec<_> = alone.into_iter().filter(|one| one.shrinks).collect();
        if shorter.is_empty() {
            return;
        }
        // The marks of these files stay until the cut is done.
        let writing: Vec<_> = (shorter.iter())
            .filter_map(|one| Writing::join(self, one.id))
            .collect();
        let store = Arc::clone(self);
        tokio::spawn(async move {
            let stable = store.commits.wait(ticket, &store.health).await;
            for Alone { id, guard, .. } in shorter {
                let cut = match (&stable, store.object(id)) {
                    (Ok(()), Ok(row)) => {
                        let (store, size) = (Arc::clone(&store), row.size);
                        let forgotten = {
                            let store = Arc::clone(&store);
                            blocking(move || store.forget_sums(id, size, u64::MAX)).await
                        };
                        match forgotten {
                            Ok(()) => store.cut_tail(&guard, id, size).await,
                            Err(error) => Err(error),
                        }
                    }
                    // Recovery will cut it, or the file is gone.
                    _ => Ok(()),
                };
                if let Err(error) = cut {
                    tracing::warn!(
                        "cannot cut a data file now, it will be before it grows: {error}"
                    );
                }
            }
            drop(writing);
        });
    }
}
