//! The store's own threads: group commit, clearing away removed objects, and taking marks off files.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use vfs::{ObjectId, Result};

use crate::committer::Wake;
use crate::data::Guards;
use crate::error::from_os;
use crate::inner::Inner;
use crate::metadata::Table;
use crate::rows::key;

/// How often marks are looked at.
const TIDY_INTERVAL: Duration = Duration::from_secs(1);
/// How long a clean file keeps its mark, in case it is written again.
const REST: Duration = Duration::from_secs(2);
/// After how long data that nobody commits is made stable anyway.
const NEGLECT: Duration = Duration::from_secs(30);
/// Rows in one batch of upkeep. Small, so that nobody waits for it.
const ROWS_A_BATCH: usize = 64;
/// Removed objects found with one view of the table.
const REMOVALS_A_PAGE: usize = 1024;

/// Wakes a thread, and ends it.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<BellState>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct BellState {
    nudged: bool,
    stopped: bool,
}

impl Bell {
    pub(crate) fn nudge(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .nudged = true;
        self.rung.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stopped = true;
        self.rung.notify_one();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stopped
    }

    /// Sleeps until nudged or stopped, at most so long; false when stopped.
    fn wait(&self, longest: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |state: &mut BellState| !state.nudged && !state.stopped;
        let (mut state, _) = self
            .rung
            .wait_timeout_while(state, longest, idle)
            .unwrap_or_else(PoisonError::into_inner);
        state.nudged = false;
        !state.stopped
    }
}

/// Makes batches stable, many at once, until told to stop; then once more.
pub(crate) fn commit_groups(inner: &Inner) {
    loop {
        let wake = inner.commits.next();
        let persist = wake != (Wake::Work { persist: false });
        let done = if persist { inner.persist_all() } else { Ok(()) };
        let done = done.and_then(|()| {
            let looked = inner.metadata.write_out_full();
            looked.map_err(|error| inner.fail(&error.to_string()))
        });
        if done.is_err() {
            inner.commits.announce_failure();
        }
        if wake == Wake::Stop || inner.health.has_failed() {
            return;
        }
    }
}

/// Clears away what removed objects left, until told to stop.
pub(crate) fn clear_removals(inner: &Inner, guards: &Arc<Guards>) {
    loop {
        // The table is the queue: it is bounded by the disk and survives a crash.
        if let Err(error) = clear_all(inner, guards) {
            tracing::warn!("cannot clear away removed files now, will try again: {error}");
        }
        if !inner.removals.wait(Duration::from_secs(60)) {
            return;
        }
    }
}

fn clear_all(inner: &Inner, guards: &Arc<Guards>) -> Result<()> {
    let mut from = Vec::new();
    loop {
        let page = removals_from(inner, &from)?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        from = key::number(last.as_u64().saturating_add(1)).to_vec();
        // A removal that could still be undone by a crash must not lose its data.
        inner.persist_through(inner.commits.committed())?;
        for group in page.chunks(ROWS_A_BATCH) {
            for id in group {
                clear_one(inner, guards, *id)?;
                if inner.removals.is_stopped() {
                    return Ok(());
                }
            }
            let mut mutation = inner.begin_blocking()?;
            group
                .iter()
                .for_each(|id| mutation.unmark(Table::Removals, *id));
            mutation.commit()?;
        }
    }
}

fn removals_from(inner: &Inner, from: &[u8]) -> Result<Vec<ObjectId>> {
    let view = inner.metadata.view();
    let rows = view.scan(Table::Removals, &[], from).take(REMOVALS_A_PAGE);
    rows.map(|row| Ok(key::parse_object(row?.key())?)).collect()
}

fn clear_one(inner: &Inner, guards: &Arc<Guards>, id: ObjectId) -> Result<()> {
    loop {
        let keys: Vec<Vec<u8>> = {
            let view = inner.metadata.view();
            let rows = view
                .scan(Table::Xattrs, &key::object(id), &[])
                .take(ROWS_A_BATCH);
            rows.map(|row| Ok(row?.key().to_vec()))
                .collect::<Result<_>>()?
        };
        if keys.is_empty() {
            break;
        }
        let mut mutation = inner.begin_blocking()?;
        keys.iter()
            .for_each(|key| mutation.remove(Table::Xattrs, key));
        mutation.commit()?;
    }
    // Whoever still reads or writes the file finishes first, and nobody can begin any more.
    let removed = guards.alone(id, || inner.files.remove(id));
    removed.map_err(|error| from_os("remove a data file", &error))
}

/// Takes marks off files that no longer need them, until told to stop.
pub(crate) fn tidy_marks(inner: &Inner) {
    while inner.tidying.wait(TIDY_INTERVAL) {
        for id in inner.dirty.neglected(NEGLECT, ROWS_A_BATCH) {
            if inner.stabilise_blocking(id).is_err() {
                return;
            }
        }
        if inner.take_marks_off(REST).is_err() {
            return;
        }
    }
}

impl Inner {
    /// Takes the marks off files that are clean and have been left alone for a while.
    pub(crate) fn take_marks_off(&self, rest: Duration) -> Result<()> {
        loop {
            let clean = self.dirty.clean(rest, ROWS_A_BATCH);
            if clean.is_empty() {
                return Ok(());
            }
            let mut mutation = self.begin_blocking()?;
            for id in clean
                .into_iter()
                .filter(|id| self.dirty.forget_if_clean(*id))
            {
                mutation.unmark(Table::Dirty, id);
            }
            mutation.commit()?;
        }
    }

    /// Makes every batch so far stable.
    pub(crate) fn persist_all(&self) -> Result<()> {
        self.health.check()?;
        let mut writer = self.writer.blocking_lock();
        if writer.committed == self.commits.stable() {
            return Ok(());
        }
        self.persist_held(&mut writer)
    }

    /// The same for somebody who has the store to itself.
    pub(crate) fn persist_alone(&self) -> Result<()> {
        let writer = self.writer.try_lock();
        let mut writer = writer.map_err(|_| vfs::Error::Io("the store is being changed".into()))?;
        self.persist_held(&mut writer)
    }

    /// Makes every batch up to a ticket stable, for threads of the store's own.
    pub(crate) fn persist_through(&self, ticket: crate::committer::Ticket) -> Result<()> {
        if self.commits.stable() >= ticket {
            self.health.check()
        } else {
            self.persist_all()
        }
    }
}
