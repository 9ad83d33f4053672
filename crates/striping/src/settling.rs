//! Sizes and times of files that clients write past the home (rule 7), and changes of the home that such writes must not meet.
//!
//! While clients may write to a file, only the data servers know how long it is. A caller that
//! wants to know asks them first ([`StripedFiles::settle`]). A caller that changes the bytes through the
//! home ends what clients may do before, and has none given anything meanwhile ([`StripedFiles::alone`]):
//! so the store finds a row that says everything, as if there were no layouts.
//!
//! What must never enter: stateids, and who asks.

use std::collections::HashMap;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pool::Act;
use pool::home::{FileRow, Outcome, Request};
use tokio::sync::Notify;
use tokio::time::{timeout, timeout_at};
use vfs::{Error, ObjectId, Result};

use crate::ranges::Ranges;
use crate::striped::StripedFiles;

/// Before it is looked again whether nobody may write past the home. What goes on with a file here tells when it ends; a layout that data servers
/// or their keys hold up does not.
const BETWEEN: Duration = Duration::from_millis(5);

/// How clients that write past the home are told to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// They are asked for what they have, and fenced after a while.
    Recalled,
    /// They are fenced at once. Who writes through the home may have given up waiting for an earlier write past it.
    Fenced,
}

/// Files about which something is going on.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    files: Mutex<HashMap<ObjectId, Use>>,
    /// Told whenever something of it is over.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Use {
    /// Layouts for writing that were asked for, and not given or refused yet.
    granting: usize,
    /// Changes through the home under way. Meanwhile no layout for writing is given.
    changing: usize,
    /// It is being moved. Meanwhile no layout for writing is given either.
    moving: Option<Changes>,
    /// Held by who asks the data servers.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How often they were asked, and the last time that was answered.
    asked: u64,
    answered: u64,
    /// Who waits for an answer.
    waiting: usize,
}

impl Uses {
    fn table(&self) -> MutexGuard<'_, HashMap<ObjectId, Use>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when this is so of a file, or has not become so until then. Asked whenever something is over.
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

    /// Changes something for which others may wait.
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

/// What was changed of a file that is being moved.
#[derive(Debug, Default)]
struct Changes {
    /// Since it was last taken.
    ranges: Ranges,
    /// Nobody knows whether these changes have happened, or when they will.
    uncertain: Ranges,
    /// Nobody begins another change.
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

/// A file that is being moved, until it is dropped.
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
    /// What was changed below `size`, and was not taken yet; with `all`, also what may still change. What lies beyond stays: the file
    /// may grow over it later, or has grown already and its row does not say so yet.
    pub(crate) fn take(&self, size: u64, all: bool) -> Ranges {
        self.files.uses.with(self.file, |of| {
            let changes = of.moving.as_mut();
            changes.map_or_else(Ranges::default, |changes| changes.take(size, all))
        })
    }

    /// A range is to be copied as if it was changed.
    pub(crate) fn add(&self, range: Range<u64>) {
        self.files.note_changed(self.file, range, false);
    }

    /// Has nobody begin a change of the file, and waits for those that have begun.
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

/// Something that is going on with a file, until it is dropped.
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

    /// A layout for writing is being asked for. `None` while the file is changed through the home.
    pub(crate) fn granting(self: &Arc<Self>, file: ObjectId) -> Option<Going> {
        let granting = self.going(file, |of| &mut of.granting);
        let is_changed = |of: &mut Use| of.changing > 0 || of.moving.is_some();
        let is_changed = self.uses.with(file, is_changed);
        (!is_changed).then_some(granting)
    }

    /// A file is changed through the home. Nobody is given a layout for writing from now on; somebody may have one.
    pub(crate) fn changing(self: &Arc<Self>, file: ObjectId) -> Going {
        self.going(file, |of| &mut of.changing)
    }

    /// The same, once no file that is moved is about to lie elsewhere.
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

    /// Notes from now on what is changed of a file. Nothing where that is done already.
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

    /// A range of a file was changed, or may have been.
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

    /// Whether the row of a file says everything, and goes on to do so while it is being changed ([`StripedFiles::changing`]).
    pub(crate) fn is_alone(&self, file: ObjectId) -> Result<bool> {
        let granting = self.uses.with(file, |of| of.granting > 0);
        Ok(!granting && !self.driver()?.is_unsettled(file))
    }

    /// The row of a file that is there; `None` when its bytes are not at data servers.
    pub(crate) fn row(&self, file: ObjectId) -> Result<Option<FileRow>> {
        let stored = self.driver()?.rows().placement(file)?;
        let found = stored.map(|stored| self.find(file, &stored));
        found.transpose().map(|found| found.map(|found| found.row))
    }

    /// Has the row of a file say how long it is, and whether it was written, by everything that was answered before.
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
            // Somebody else has asked since, and was answered.
            if self.uses.with(file, |of| of.answered > asked) {
                return Ok(());
            }
            let (files, waiting) = (Arc::clone(self), waiting);
            // Asked once, however often callers that want to know give up: a data server may be
            // away for long.
            let asking = tokio::spawn(async move {
                let looked = files.look(file).await;
                drop((turn, waiting));
                looked
            });
            let stopped = |_| Error::Io("the runtime ended".into());
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

    /// Ends what clients may do to the bytes of a file, and has none given anything until what is returned is dropped.
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
            // A layout that is being asked for ends by itself.
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

    /// Bytes are noted before the row of the file says that they belong to it, and a file that was cut may grow again.
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
