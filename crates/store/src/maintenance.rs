//! The store's own threads: group commit, clearing away the data of removed objects, and removing marks of files.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use vfs::{ObjectId, Result};

use crate::committer::Wake;
use crate::data::Guards;
use crate::error::from_os;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::open_store::OpenStore;
use crate::rows::key;
use crate::waiting::wait;

/// How often marks are checked.
const TIDY_INTERVAL: Duration = Duration::from_secs(1);
/// How long a clean file keeps its mark, in case it is written again.
const REST: Duration = Duration::from_secs(2);
/// How long data without a COMMIT stays unstable.
const NEGLECT: Duration = Duration::from_secs(30);
/// How long small stable writes are kept in rows before their data files are made stable.
const KEEPING: Duration = Duration::from_secs(5);
/// The approximate limit of their bytes.
pub(crate) const MANY_KEPT_BYTES: u64 = 16 << 20;
/// Above this number of marked files, marks are removed sooner.
const MANY_MARKS: usize = 1 << 16;
/// How long removals are collected before their data is cleared away. Clearing waits for stable storage first, so
/// clearing after every removal would make all operations that change rows wait, too.
const GATHERING: Duration = Duration::from_secs(1);
/// Rows in one maintenance batch; few, so that no operation waits long for it.
const ROWS_A_BATCH: usize = 64;
/// The delay before clearing is retried after a failure.
const CLEAR_INTERVAL: Duration = Duration::from_secs(60);
/// Removed objects read with one view of the table.
const REMOVALS_A_PAGE: usize = 1024;

/// Makes batches stable in groups, until told to stop; then once more.
pub(crate) fn commit_groups(store: &OpenStore) {
    loop {
        let wake = store.commits.next();
        let persist = wake != (Wake::Work { persist: false });
        store.allocate_journal();
        let done = if persist { store.persist_all() } else { Ok(()) };
        let done = done.and_then(|()| {
            let has_space = |bytes| store.headroom.ensure(bytes);
            // Tables and journals are created through the path of the store.
            let has_files =
                || store.directory.is_in_place(&store.layout) && store.headroom.has_files();
            let looked = store.metadata.write_out_full(has_space, has_files);
            looked.map_err(|error| store.fail(&error.to_string()))
        });
        let objects = store.objects.load(Ordering::Relaxed);
        let unwritten_bytes = store.metadata.unwritten_bytes();
        store.headroom.note_metadata(unwritten_bytes, objects);
        if done.is_err() {
            store.commits.announce_failure();
        }
        if wake == Wake::Stop || store.health.has_failed() {
            return;
        }
    }
}

/// Clears away the data of removed objects, until told to stop.
pub(crate) fn clear_removals(store: &OpenStore, guards: &Arc<Guards>) {
    loop {
        if let Err(error) = clear_all(store, guards) {
            if store.is_closing() {
                return;
            }
            store.leftovers.search_again();
            tracing::warn!("cannot clear away removed files now, will try again: {error}");
        }
        let signal = &store.leftovers.signal;
        if !signal.wait(CLEAR_INTERVAL) || !signal.pause(GATHERING) {
            return;
        }
    }
}

/// Clears away the data of all objects removed so far.
pub(crate) fn clear_now(store: &OpenStore, guards: &Arc<Guards>) -> Result<()> {
    search_removals(store, guards)?;
    // Another thread may still be clearing some of it.
    let _clearing = store.leftovers.clearing();
    let left = store.metadata.view().scan(Table::Removals, &[], &[]).next();
    match left.transpose()? {
        None => Ok(()),
        Some(_) => Err(vfs::Error::Io("removed files are still there".into())),
    }
}

fn clear_all(store: &OpenStore, guards: &Arc<Guards>) -> Result<()> {
    while !store.leftovers.signal.is_stopped() {
        let page = store.leftovers.take(REMOVALS_A_PAGE);
        if !page.is_empty() {
            clear_page(store, guards, &page)?;
        } else if store.leftovers.take_search() {
            search_removals(store, guards)?;
        } else {
            return Ok(());
        }
    }
    Ok(())
}

fn search_removals(store: &OpenStore, guards: &Arc<Guards>) -> Result<()> {
    let (mut from, mut put_off) = (Vec::new(), Ok(()));
    while !store.leftovers.signal.is_stopped() {
        let page: Vec<ObjectId> = {
            let view = store.metadata.view();
            let rows = view.scan(Table::Removals, &[], &from).take(REMOVALS_A_PAGE);
            rows.map(|row| Ok(key::parse_object(row?.key())?))
                .collect::<Result<_>>()?
        };
        let Some(last) = page.last() else {
            return put_off;
        };
        from = key::number(last.as_u64().saturating_add(1)).to_vec();
        if let Err(error) = clear_page(store, guards, &page) {
            put_off = Err(error);
        }
    }
    put_off
}

fn clear_page(store: &OpenStore, guards: &Arc<Guards>, page: &[ObjectId]) -> Result<()> {
    // A crash must not undo a removal whose data is gone.
    store.persist_all()?;
    let mut put_off = Ok(());
    for group in page.chunks(ROWS_A_BATCH) {
        if store.leftovers.signal.is_stopped() {
            return Ok(());
        }
        if let Err(error) = clear_group(store, guards, group) {
            put_off = Err(error);
        }
    }
    put_off
}

fn clear_group(store: &OpenStore, guards: &Arc<Guards>, group: &[ObjectId]) -> Result<()> {
    let _clearing = store.leftovers.clearing();
    let mut cleared = Vec::with_capacity(group.len());
    let mut put_off = Ok(());
    for id in group {
        let Some(row) = store.metadata.row(Table::Removals, &key::object(*id))? else {
            continue;
        };
        match clear_one(store, guards, *id, &row) {
            Ok(()) => cleared.push(*id),
            Err(error) if row.is_empty() || store.is_closing() => return Err(error),
            // Contents elsewhere may be unreachable; the others are removed.
            Err(error) => put_off = Err(error),
        }
    }
    if cleared.is_empty() {
        return put_off;
    }
    // A file system may make the unlink stable later than an append to a journal within its allocated length. A
    // file that came back would be data of no object.
    let synced = store.files.sync_removals(&cleared);
    synced.map_err(|error| store.fail(&format!("cannot make removals stable: {error}")))?;
    let mut mutation = store.begin_blocking()?;
    cleared
        .into_iter()
        .for_each(|id| mutation.unmark(Table::Removals, id));
    mutation.commit_local()?;
    put_off
}

fn clear_one(store: &OpenStore, guards: &Arc<Guards>, id: ObjectId, row: &[u8]) -> Result<()> {
    store.remove_sums(id, 0, u64::MAX)?;
    loop {
        let keys: Vec<Vec<u8>> = {
            let view = store.metadata.view();
            let rows = view
                .scan(Table::Xattrs, &key::object(id), &[])
                .take(ROWS_A_BATCH);
            rows.map(|row| Ok(row?.key().to_vec()))
                .collect::<Result<_>>()?
        };
        if keys.is_empty() {
            break;
        }
        let mut mutation = store.begin_blocking()?;
        keys.iter()
            .for_each(|key| mutation.remove_local(Table::Xattrs, key));
        mutation.commit_local()?;
    }
    // Operations that still use the file finish first, and no new one can begin.
    let alone = wait(guards.exclude(id), || store.is_closing());
    let _alone = alone.ok_or_else(|| vfs::Error::Io("the store is being closed".into()))?;
    store.content_at(id, row)?.remove()
}

/// Removes marks of files that no longer need them, and forgets old requests, until told to stop.
pub(crate) fn tidy_marks(store: &OpenStore) {
    let mut settled_at = Instant::now();
    while store.tidying.wait(TIDY_INTERVAL) {
        match tidy(store, &mut settled_at) {
            // A lack of descriptors is temporary.
            Ok(()) | Err(vfs::Error::Delay) => {}
            Err(_) => return,
        }
    }
}

/// Does this once.
fn tidy(store: &OpenStore, settled_at: &mut Instant) -> Result<()> {
    store.check_place()?;
    let settled = store.metadata.settle_mark();
    settled.map_err(|error| store.fail(&error.to_string()))?;
    store.headroom.restore_ballast();
    if settled_at.elapsed() >= KEEPING || store.dirty.all_kept_bytes() > MANY_KEPT_BYTES {
        store.settle_kept()?;
        *settled_at = Instant::now();
    }
    // Marked files use memory, so with too many of them the waiting times are shorter.
    let many = store.dirty.len() > MANY_MARKS;
    let (neglect, rest) = if many {
        (REST, Duration::ZERO)
    } else {
        (NEGLECT, REST)
    };
    store.stabilise_neglected(neglect)?;
    store.cut_tails_elsewhere(rest)?;
    store.close_crowded()?;
    store.take_marks_off(rest)?;
    store.forget_old_requests()
}

/// Removes void checksums and computes them again, until told to stop.
pub(crate) fn make_sums(store: &OpenStore) {
    while store.summing.wait(TIDY_INTERVAL) {
        for id in store.voided.all() {
            // Nothing depends on the result: if a file cannot be read, its readers get the error.
            let made = store.clear_voided(id).and_then(|()| store.sum_again(id));
            if let Err(error) = made {
                tracing::debug!(%id, %error, "no checksums are made of a file");
            }
            if store.is_closing() {
                return;
            }
        }
    }
}

impl OpenStore {
    /// Ends the store if its path leads elsewhere: later changes would be missing at the place where users expect them.
    fn check_place(&self) -> Result<()> {
        if self.directory.is_in_place(&self.layout) {
            return Ok(());
        }
        let reason = format!(
            "{} is not the directory any more that it was opened in: that was moved, replaced, unmounted, or claimed by another \
             process",
            self.layout.root().display()
        );
        let remedy = "What was answered lies in the one that was opened; put it back in its place, then start again";
        let error = self.health.end(&reason, remedy);
        self.commits.announce_failure();
        Err(error)
    }

    /// Allocates the next part of the journal in advance, so that other programs that fill the disk cannot end the store.
    fn allocate_journal(&self) {
        let ahead_bytes = self.headroom.journal_bytes();
        let allocate = || self.metadata.allocate_journal(ahead_bytes);
        if let Err(error) = self.headroom.force(allocate) {
            tracing::debug!("cannot allocate the journal ahead: {error}");
        }
    }

    /// Makes data stable in files that no task has touched for a while.
    pub(crate) fn stabilise_neglected(&self, neglect: Duration) -> Result<()> {
        for id in self.dirty.neglected(neglect, usize::MAX) {
            if self.is_closing() {
                return Ok(());
            }
            match self.stabilise_blocking(id) {
                Ok(kept) => self.release_all_kept(&[(id, kept)])?,
                // Contents elsewhere may be unreachable; the other files must not wait for them.
                Err(error) if self.is_elsewhere(id).unwrap_or_default() => {
                    tracing::debug!(%id, %error, "data elsewhere is not made stable now");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes the marks of files that are clean and that no task has touched for a while.
    pub(crate) fn take_marks_off(&self, rest: Duration) -> Result<()> {
        loop {
            let clean = self.dirty.clean(rest, ROWS_A_BATCH);
            if clean.is_empty() {
                return Ok(());
            }
            let mut closing = Vec::with_capacity(clean.len());
            for id in clean {
                closing.push((id, self.close_most(id)?));
            }
            let mut left = false;
            let mut mutation = self.begin_blocking()?;
            for (id, closing) in closing {
                if self.close_last(&mut mutation, id, closing) && self.dirty.forget_if_clean(id) {
                    mutation.unmark(Table::Dirty, id);
                    self.note_made(&mut mutation, id)?;
                } else {
                    left = true;
                }
            }
            mutation.commit_local()?;
            if left {
                // The file is being written again.
                return Ok(());
            }
        }
    }

    /// A write that failed for lack of space may have created a data file. Records it in the row, so that it is removed with the file.
    fn note_made(&self, mutation: &mut Mutation<'_>, id: ObjectId) -> Result<()> {
        let Ok(row) = mutation.object(id) else {
            return Ok(());
        };
        let is_unnoted = row.placement().is_none() && row.file().is_ok_and(|file| !file.stored);
        let exists = || self.files.exists(id);
        if is_unnoted && exists().map_err(|error| from_os("look for a data file", &error))? {
            let mut row = row.clone();
            row.file_mut()?.stored = true;
            mutation.put_quietly(id, &row);
        }
        Ok(())
    }

    /// Closes blocks of files that are still being written, if memory for open blocks runs short.
    fn close_crowded(&self) -> Result<()> {
        for id in self.open_sums.crowded() {
            self.close_whole(id)?;
        }
        Ok(())
    }

    /// Makes every batch so far stable. Other tasks can commit meanwhile.
    pub(crate) fn persist_all(&self) -> Result<()> {
        let ticket = self.commits.committed();
        if ticket == self.commits.stable() {
            return self.health.check();
        }
        self.persist_through(ticket)
    }

    /// The same for a caller that is the only user of the store.
    pub(crate) fn persist_alone(&self) -> Result<()> {
        let writer = self.writer.try_lock();
        let mut writer = writer.map_err(|_| vfs::Error::Io("the store is being changed".into()))?;
        self.persist_held(&mut writer)
    }
}
