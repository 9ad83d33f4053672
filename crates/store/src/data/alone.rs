//! Files whose size another primary has changed.
//!
//! As with a change of size made here (`resize.rs`), the row comes first and has to be stable before the
//! data file is cut; but nobody waits for that who does not want the same file.

use std::sync::Arc;

use vfs::{Error, ObjectId, Result};

use super::guards::Exclusive;
use super::write::Writing;
use crate::committer::Ticket;
use crate::inner::{Inner, blocking};
use crate::rows::ObjectRow;

/// A file that nobody else reads or writes, and that has nothing behind its size.
pub(crate) struct Alone {
    id: ObjectId,
    shrinks: bool,
    guard: Exclusive,
}

impl Alone {
    /// Whether this is the file, prepared for what happens to it: `true` for a smaller size.
    pub(crate) fn covers(&self, (id, shrinks): (ObjectId, bool)) -> bool {
        self.id == id && (self.shrinks || !shrinks)
    }
}

impl Inner {
    /// Waits for everybody else to leave a file, and prepares it for another size.
    pub(crate) async fn have_alone(self: &Arc<Self>, id: ObjectId, shrinks: bool) -> Result<Alone> {
        let guard = self.guards.exclude(id).await;
        match self.object(id) {
            Ok(row) if row.file().is_ok() && self.may_have_data(id, &row) => {
                if !self.dirty.tail_is_clean(id) {
                    self.cut_tail(&guard, id, row.size).await?;
                }
                if !shrinks {
                    self.settle_cut(id).await?;
                }
                if shrinks && !self.dirty.kept(id).is_empty() {
                    // What is kept goes with the change of size, so the data has to be stable.
                    self.stabilise(id).await?;
                }
            }
            Ok(_) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
        Ok(Alone { id, shrinks, guard })
    }

    /// Whether there can be a data file, written down or not.
    pub(crate) fn may_have_data(&self, id: ObjectId, row: &ObjectRow) -> bool {
        row.file().is_ok_and(|file| file.stored) || self.dirty.contains(id)
    }

    /// Cuts the data files that have got shorter, once that is stable. Until then nobody gets at them.
    pub(crate) fn cut_behind(self: &Arc<Self>, alone: Vec<Alone>, ticket: Ticket) {
        let shorter: Vec<_> = alone.into_iter().filter(|one| one.shrinks).collect();
        if shorter.is_empty() {
            return;
        }
        // The marks of these files stay as long.
        let writing: Vec<_> = (shorter.iter())
            .filter_map(|one| Writing::join(self, one.id))
            .collect();
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let stable = inner.commits.wait(ticket, &inner.health).await;
            for Alone { id, guard, .. } in shorter {
                let cut = match (&stable, inner.object(id)) {
                    (Ok(()), Ok(row)) => {
                        let (inner, size) = (Arc::clone(&inner), row.size);
                        let forgotten = {
                            let inner = Arc::clone(&inner);
                            blocking(move || inner.forget_sums(id, size, u64::MAX)).await
                        };
                        match forgotten {
                            Ok(()) => inner.cut_tail(&guard, id, size).await,
                            Err(error) => Err(error),
                        }
                    }
                    // Recovery will do it; or the file is gone.
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
