//! Sizes and times of files that clients write directly at data servers (rule 7), and changes by the home that must not meet such writes.
//!
//! While clients may write to a file directly, only the data servers know its size. A caller that needs the size asks them first
//! ([`StripedFiles::settle`]). A caller that changes bytes through the home first ends the clients' rights to write and prevents new ones
//! ([`StripedFiles::alone`]). So the store finds a complete row, as if there were no layouts.
//!
//! What must never enter: stateids, and which client asks.

use std::collections::HashMap;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pool::Act;
use pool::home::{FileRow, Outcome, Request};
use tokio::sync::Notify;
use tokio::task::JoinError;
use tokio::time::{timeout, timeout_at};
use vfs::{Error, ObjectId, Result};

use crate::ranges::Ranges;
use crate::striped::StripedFiles;

/// Delay before a file is checked again for direct writers. Local uses of a file notify when they end. A layout that waits for data servers
/// or their keys does not.
const BETWEEN: Duration = Duration::from_millis(5);

/// How the right of clients to write directly is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Their layouts are recalled, and fenced after a while.
    Recalled,
    /// They are fenced at once. A client that writes through the home may have given up waiting for an earlier direct write.
    Fenced,
}

/// Files that are in use.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    files: Mutex<HashMap<ObjectId, Use>>,
    /// Notified whenever a use ends.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Use {
    /// Layouts for writing that were requested and not given or refused yet.
    granting: usize,
    /// Running changes through the home. Meanwhile no layout for writing is given.
    changing: usize,
    /// It is being moved. Meanwhile no layout for writing is given either.
    moving: Option<Changes>,
    /// Held by the task that asks the data servers.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How often they were asked, and the last question that was answered.
    asked: u64,
    answered: u64,
    /// Tasks that wait for an answer.
    waiting: usize,
}

impl Uses {
    fn table(&self) -> MutexGuard<'_, HashMap<ObjectId, Use>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when `is_so` returns a value for a file, checked whenever a use ends.
    ///
    /// # Errors
    /// [`Error::Delay`] when that takes too long.
    async fn wait<T>(
        &self,
        file: ObjectId,
        until: Instant,
        is_so: impl Fn(&mut Use) -> Option<T>,
    ) -> Result<T> {
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            if let Some(so) = self.with(file, &is_so) {
                return Ok(so);
            }
            let waited = timeout_at(until.into(), ended).await;
            waited.map_err(|_| Error::Delay)?;
        }
    }

    /// Changes something that others may wait for.
    fn end(&self, file: ObjectId, change: impl FnOnce(&mut Use)) {
        self.with(file, change);
        self.ended.notify_waiters();
    }

    fn with<T>(&self, file: ObjectId, change: impl FnOnce(&mut Use) -> T) -> T {
        let mut table = self.table();
        let done = change(table.entry(file).or_default());
        let is_over = |of: &Use| {
            let counts = of.granting + of.changing + of.waiting;
            counts == 0 && of.moving.is_none()
        };
        if table.get(&file).is_some_and(is_over) {
            table.remove(&file);
        }
        done
    }
}

/// Changed ranges of a file that is being moved.
#[derive(Debug, Default)]
struct Changes {
    /// Changed since last taken.
    ranges: Ranges,
    /// It is unknown whether these changes have happened, or when they will.
    uncertain: Ranges,
    /// No new change may begin.
    is_held: bool,
}

impl Changes {
    fn take(&mut self, size: u64, all: bool) -> Ranges {
        if all {
            let uncertain = std::mem::take(&mut self.uncertain);
            self.ranges.add_all(&uncertain);
        }
        self.ranges.take_below(size)
    }
}

/// A file that is being moved, until this is dropped.
pub(crate) struct Tracking {
    files: Arc<StripedFiles>,
    file: ObjectId,
}

impl Drop for Tracking {
    fn drop(&mut self) {
        self.files.uses.end(self.file, |of| of.moving = None);
    }
}

impl Tracking {
    /// Takes the ranges below `size` that were changed and not taken yet; with `all`, also those that may still change. Ranges beyond
    /// `size` stay: the file may grow over them later, or has grown already without an update of its row.
    pub(crate) fn take(&self, size: u64, all: bool) -> Ranges {
        self.files.uses.with(self.file, |of| {
            let changes = of.moving.as_mut();
            changes.map_or_else(Ranges::default, |changes| changes.take(size, all))
        })
    }

    /// Has a range copied as if it was changed.
    pub(crate) fn add(&self, range: Range<u64>) {
        self.files.note_changed(self.file, range, false);
    }

    /// Prevents new changes of the file, and waits for those under way.
    ///
    /// # Errors
    /// [`Error::Delay`] when that takes too long.
    pub(crate) async fn hold(&self) -> Result<()> {
        let until = Instant::now() + self.files.patience();
        let is_still = |of: &mut Use| {
            if let Some(changes) = &mut of.moving {
                changes.is_held = true;
            }
            (of.changing == 0).then_some(())
        };
        self.files.uses.wait(self.file, until, is_still).await
    }
}

/// One use of a file, until this is dropped.
pub(crate) struct Going {
    files: Arc<StripedFiles>,
    file: ObjectId,
    count: fn(&mut Use) -> &mut usize,
}

impl Drop for Going {
    fn drop(&mut self) {
        let count = self.count;
        self.files.uses.end(self.file, |of| {
            let count = count(of);
            *count = count.saturating_sub(1);
        });
    }
}

impl StripedFiles {
    fn going(self: &Arc<Self>, file: ObjectId, count: fn(&mut Use) -> &mut usize) -> Going {
        self.uses.with(file, |of| *count(of) += 1);
        Going {
            files: Arc::clone(self),
            file,
            count,
        }
    }

    /// A layout for writing is being requested. `None` while the file is changed through the home, or moved.
    pub(crate) fn granting(self: &Arc<Self>, file: ObjectId) -> Option<Going> {
        let granting = self.going(file, |of| &mut of.granting);
        let is_changed = |of: &mut Use| of.changing > 0 || of.moving.is_some();
        let is_changed = self.uses.with(file, is_changed);
        (!is_changed).then_some(granting)
    }

    /// A file is changed through the home. From now on no client gets a layout for writing. A client may still have one.
    pub(crate) fn changing(self: &Arc<Self>, file: ObjectId) -> Going {
        self.going(file, |of| &mut of.changing)
    }

    /// The same, once no move holds back changes of the file.
    ///
    /// # Errors
    /// [`Error::Delay`] when that takes too long.
    async fn changing_unless_held(
        self: &Arc<Self>,
        file: ObjectId,
        until: Instant,
    ) -> Result<Going> {
        let begins = |of: &mut Use| {
            let is_held = of.moving.as_ref().is_some_and(|moving| moving.is_held);
            of.changing += usize::from(!is_held);
            (!is_held).then_some(())
        };
        self.uses.wait(file, until, begins).await?;
        Ok(Going {
            files: Arc::clone(self),
            file,
            count: |of| &mut of.changing,
        })
    }

    /// The same, with the time limit of a wait for data servers.
    ///
    /// # Errors
    /// [`Error::Delay`] when that takes too long.
    pub(crate) async fn changing_when_let(self: &Arc<Self>, file: ObjectId) -> Result<Going> {
        let until = Instant::now() + self.patience();
        self.changing_unless_held(file, until).await
    }

    /// Notes changes of a file from now on. `None` if that is done already.
    pub(crate) fn track(self: &Arc<Self>, file: ObjectId) -> Option<Tracking> {
        let begins = self.uses.with(file, |of| {
            let begins = of.moving.is_none();
            of.moving.get_or_insert_default();
            begins
        });
        begins.then(|| Tracking {
            files: Arc::clone(self),
            file,
        })
    }

    /// A range of a file was changed, or may have been changed.
    pub(crate) fn note_changed(&self, file: ObjectId, range: Range<u64>, is_uncertain: bool) {
        self.uses.with(file, |of| {
            if let Some(changes) = &mut of.moving {
                if is_uncertain {
                    changes.uncertain.add(range.clone());
                }
                changes.ranges.add(range);
            }
        });
    }

    /// Whether the row of a file is complete, and stays so while the file is being changed ([`StripedFiles::changing`]).
    pub(crate) fn is_alone(&self, file: ObjectId) -> Result<bool> {
        let granting = self.uses.with(file, |of| of.granting > 0);
        Ok(!granting && !self.driver()?.is_unsettled(file))
    }

    /// The row of a file that exists. `None` if its bytes are not at data servers.
    pub(crate) fn row(&self, file: ObjectId) -> Result<Option<FileRow>> {
        let stored = self.driver()?.rows().placement(file)?;
        let found = stored.map(|stored| self.find(file, &stored));
        found.transpose().map(|found| found.map(|found| found.row))
    }

    /// Updates the row of a file with the size and the time of all writes that were answered before.
    ///
    /// # Errors
    /// [`Error::Delay`] when that is not known in time, because a data server is away.
    pub(crate) async fn settle(self: &Arc<Self>, file: ObjectId) -> Result<()> {
        if !self.driver()?.is_unsettled(file) {
            return Ok(());
        }
        let waiting = self.going(file, |of| &mut of.waiting);
        let (turn, asked) = self.uses.with(file, |of| (Arc::clone(&of.turn), of.asked));
        let looked = async {
            let turn = turn.lock_owned().await;
            // Another task has asked since and got an answer.
            if self.uses.with(file, |of| of.answered > asked) {
                return Ok(());
            }
            let (files, waiting) = (Arc::clone(self), waiting);
            // The question runs to its end even if callers give up: a data server may be away for long.
            let asking = tokio::spawn(async move {
                let looked = files.look(file).await;
                drop((turn, waiting));
                looked
            });
            let stopped = |error: JoinError| Error::broken_off(error.is_cancelled(), &error);
            asking.await.map_err(stopped)?
        };
        let looked = timeout(self.patience(), looked).await;
        looked.unwrap_or(Err(Error::Delay))
    }

    async fn look(&self, file: ObjectId) -> Result<()> {
        let number = self.uses.with(file, |of| {
            of.asked += 1;
            of.asked
        });
        match self.request(file, Request::Look).await? {
            Outcome::Size(_) | Outcome::Gone => {
                self.uses.with(file, |of| of.answered = number);
                Ok(())
            }
            _ => Err(Error::Io("a look was answered like another request".into())),
        }
    }

    /// Ends the clients' rights to change the bytes of a file, and prevents new ones until the result is dropped.
    ///
    /// # Errors
    /// [`Error::Delay`] when that takes too long, because a data server is away.
    pub(crate) async fn alone(self: &Arc<Self>, file: ObjectId, how: Ending) -> Result<Going> {
        let until = Instant::now() + self.patience();
        let changing = self.changing_unless_held(file, until).await?;
        loop {
            if self.is_alone(file)? {
                return Ok(changing);
            }
            let driver = self.driver()?;
            if driver.is_written(file, None) {
                let request = match how {
                    Ending::Recalled => Request::Alone,
                    Ending::Fenced => Request::Change(Act::Fence),
                };
                self.request(file, request).await?;
            }
            self.settle(file).await?;
            if self.is_alone(file)? {
                return Ok(changing);
            }
            if Instant::now() > until {
                return Err(Error::Delay);
            }
            // A request for a layout ends by itself.
            let not_granting = |of: &mut Use| (of.granting == 0).then_some(());
            self.uses.wait(file, until, not_granting).await?;
            if !self.is_alone(file)? {
                tokio::time::sleep(BETWEEN).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes are noted before the file's row includes them, and a truncated file may grow again.
    #[test]
    fn what_lies_beyond_the_size_is_taken_once_the_file_has_it() {
        let mut changes = Changes::default();
        changes.ranges.add(5..7);
        changes.ranges.add(100..u64::MAX);
        let taken = |changes: &mut Changes, size, all| {
            let taken = changes.take(size, all);
            let bounds = taken.iter().map(|range| (range.start, range.end));
            bounds.collect::<Vec<_>>()
        };
        assert_eq!(taken(&mut changes, 50, false), [(5, 7)]);
        assert_eq!(taken(&mut changes, 50, false), []);
        assert_eq!(taken(&mut changes, 120, false), [(100, 120)]);
        changes.uncertain.add(10..130);
        assert_eq!(taken(&mut changes, 120, false), []);
        assert_eq!(taken(&mut changes, 125, true), [(10, 125)]);
    }
}
