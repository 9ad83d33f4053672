//! Group commit: one thread makes the operations of many clients durable together.
//!
//! The same rules serve stores to which every client appends and stores with one writer, so that
//! the candidates differ only in what they do themselves.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::rows::Operation;
use crate::store::{Durability, Store, Writing};

/// How long the committing thread sleeps without work before it looks after the store.
const IDLE: Duration = Duration::from_millis(2);
/// How much work `Durability::Async` may lose to a power failure.
const PERSIST_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Progress {
    queue: Vec<Operation>,
    submitted: u64,
    completed: u64,
    stopping: bool,
    failed: bool,
}

/// What clients and the committing thread share.
pub struct Group<'s> {
    store: &'s dyn Store,
    durability: Durability,
    writing: Writing,
    progress: Mutex<Progress>,
    work: Condvar,
    done: Condvar,
}

impl<'s> Group<'s> {
    fn new(store: &'s dyn Store, durability: Durability, writing: Writing) -> Self {
        Self {
            store,
            durability,
            writing,
            progress: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
        }
    }

    /// Carries out one operation and returns when the client may be answered.
    pub fn execute(&self, operation: Operation) -> Result<()> {
        let appended = self.writing == Writing::Appended;
        let mut queued = None;
        if appended {
            self.store.commit(std::slice::from_ref(&operation))?;
        } else {
            queued = Some(operation);
        }
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.queue.extend(queued);
        progress.submitted += 1;
        let ticket = progress.submitted;
        if appended && self.durability == Durability::Async {
            return self.check(progress.failed);
        }
        self.work.notify_one();
        while progress.completed < ticket && !progress.failed {
            progress = self
                .done
                .wait(progress)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.check(progress.failed)
    }

    fn check(&self, failed: bool) -> Result<()> {
        if failed {
            bail!("the committing thread has failed; its own error says why");
        }
        Ok(())
    }

    /// Lets `run` return after what has been submitted so far.
    fn stop(&self) {
        self.progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stopping = true;
        self.work.notify_one();
    }

    /// The committing thread: commits groups until `stop`.
    fn run(&self) -> Result<()> {
        let outcome = self.commit_groups();
        if outcome.is_err() {
            self.progress
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .failed = true;
            self.done.notify_all();
        }
        outcome
    }

    fn commit_groups(&self) -> Result<()> {
        let mut persisted_at = Instant::now();
        loop {
            let (operations, target, stopping) = self.next_group();
            if !operations.is_empty() {
                self.store.commit(&operations)?;
            }
            let due = self.durability == Durability::Sync && target.is_some();
            if due || stopping || persisted_at.elapsed() >= PERSIST_INTERVAL {
                self.store.persist()?;
                persisted_at = Instant::now();
            }
            if let Some(target) = target {
                let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
                progress.completed = target;
                self.done.notify_all();
            }
            self.store.tend()?;
            if stopping && target.is_none() {
                return Ok(());
            }
        }
    }

    /// What to commit next: operations, the last ticket they cover, and whether to stop after.
    fn next_group(&self) -> (Vec<Operation>, Option<u64>, bool) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        // Appending clients of an asynchronous store do not wait, so nothing wakes this thread.
        let unattended = self.durability == Durability::Async && self.writing == Writing::Appended;
        if unattended || (progress.submitted == progress.completed && !progress.stopping) {
            progress = self
                .work
                .wait_timeout(progress, IDLE)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let operations = std::mem::take(&mut progress.queue);
        let target = (progress.submitted > progress.completed).then_some(progress.submitted);
        (operations, target, progress.stopping)
    }
}

/// Runs `clients` threads of `client` against a group, and the committing thread beside them.
///
/// `client` gets its number and the group; the first error of any thread is returned.
pub fn with_clients(
    store: &dyn Store,
    durability: Durability,
    writing: Writing,
    clients: u64,
    client: impl Fn(u64, &Group<'_>) -> Result<()> + Sync,
) -> Result<()> {
    let group = Group::new(store, durability, writing);
    std::thread::scope(|scope| {
        let committer = scope.spawn(|| group.run());
        let threads: Vec<_> = (0..clients)
            .map(|number| {
                let (client, group) = (&client, &group);
                scope.spawn(move || client(number, group))
            })
            .collect();
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        group.stop();
        committer
            .join()
            .unwrap_or_else(|_| bail!("the committing thread panicked"))?;
        for outcome in outcomes {
            outcome.unwrap_or_else(|_| bail!("a client thread panicked"))?;
        }
        Ok(())
    })
}
