//! Group commit: many operations share one flush.
//!
//! A batch of rows gets a [`Ticket`] when it is committed in memory. One thread makes all tickets issued
//! so far stable with a single flush, and then wakes every task whose ticket is covered; tickets that
//! arrive meanwhile form the next group. The same thread keeps the embedded store's memory bounded.
//!
//! An operation that is alone makes its ticket stable itself ([`Commits::lead`]): no other operation could share its flush, and
//! two thread switches would take as long as a fast disk. While other operations wait, the thread serves all of them.
//!
//! This module also handles failures of stable storage. The store then fails every later operation
//! ([`Health`]), because the content of the disk is no longer known.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// The position of a batch in the order of commits; 0 is before all batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// The longest time that a batch stays unstable if no task requests a flush.
pub(crate) const LAZY_INTERVAL: Duration = Duration::from_secs(1);

/// An operation may flush by itself only if the last flush was faster than this: other requests on its connection
/// wait as long.
const QUICK: Duration = Duration::from_millis(1);

/// Whether stable storage still works.
#[derive(Debug, Default)]
pub(crate) struct Health(OnceLock<String>);

impl Health {
    /// Ends all work because stable storage has failed.
    pub(crate) fn fail(&self, reason: &str) -> vfs::Error {
        self.end(
            &format!("stable storage failed: {reason}"),
            "Repair or replace the disk, or free space on it, then start again",
        )
    }

    /// Ends all work: the reason is logged once, together with the remedy, and every later operation gets it.
    pub(crate) fn end(&self, reason: &str, remedy: &str) -> vfs::Error {
        if self.0.set(reason.to_owned()).is_ok() {
            tracing::error!("the store stops serving, because {reason}. {remedy}");
        }
        vfs::Error::Io(reason.to_owned())
    }

    /// Ends all work because the store was closed; this is not logged as an error.
    pub(crate) fn close(&self) {
        self.0.get_or_init(|| "it was closed".into());
    }

    pub(crate) fn check(&self) -> vfs::Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(reason) => Err(vfs::Error::Io(format!("the store has ended: {reason}"))),
        }
    }

    /// Whether it failed because a disk was full. The embedded store reports that only as text of the operating system.
    pub(crate) fn has_lacked_space(&self) -> bool {
        let full = std::io::Error::from(rustix::io::Errno::NOSPC).to_string();
        let words = full.split(" (").next().unwrap_or(&full);
        self.0.get().is_some_and(|reason| reason.contains(words))
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0.get().is_some()
    }
}

/// A request to the committing thread.
#[derive(Debug, Default)]
struct Request {
    /// A task waits for all tickets up to this one.
    wanted: Ticket,
    /// The write buffers may be full.
    look: bool,
    stop: bool,
}

/// Why the committing thread woke up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Make everything stable, or at least check the write buffers.
    Work {
        /// Whether a task waits for stable storage, or the interval has passed.
        persist: bool,
    },
    /// Make everything stable and stop.
    Stop,
}

/// Statistics of flushes.
#[derive(Debug)]
struct Trips {
    under_way: usize,
    /// The duration of the last one.
    took: Duration,
    /// The number of operations that it served.
    served: usize,
}

/// A flush that is in progress until this is dropped; drop it before the result is announced.
#[derive(Debug)]
pub(crate) struct Trip<'c> {
    commits: &'c Commits,
    began: Instant,
}

impl Drop for Trip<'_> {
    fn drop(&mut self) {
        let mut trips = self.commits.trips();
        trips.under_way -= 1;
        trips.took = self.began.elapsed();
        trips.served = self.commits.waiting.load(Ordering::Relaxed);
    }
}

/// A waiting operation, until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'c>(&'c AtomicUsize);

impl<'c> Waiting<'c> {
    fn among(waiting: &'c AtomicUsize) -> Waiting<'c> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state shared by operations and the committing thread.
#[derive(Debug)]
pub(crate) struct Commits {
    request: Mutex<Request>,
    requested: Condvar,
    committed: AtomicU64,
    stable: watch::Sender<Ticket>,
    /// The number of operations that wait for a flush.
    waiting: AtomicUsize,
    trips: Mutex<Trips>,
    /// Batches with an update record that are not stable yet, and the positions of the records.
    recorded: Mutex<VecDeque<(Ticket, u64)>>,
    stable_position: watch::Sender<u64>,
}

impl Commits {
    /// For a store without records after `position`.
    pub(crate) fn new(position: u64) -> Commits {
        Commits {
            request: Mutex::default(),
            requested: Condvar::new(),
            committed: AtomicU64::new(0),
            stable: watch::Sender::new(Ticket::default()),
            waiting: AtomicUsize::new(0),
            trips: Mutex::new(Trips {
                under_way: 0,
                // The speed of the disk is not known yet.
                took: Duration::MAX,
                served: 0,
            }),
            recorded: Mutex::default(),
            stable_position: watch::Sender::new(position),
        }
    }

    /// The newest ticket issued.
    pub(crate) fn committed(&self) -> Ticket {
        Ticket(self.committed.load(Ordering::Acquire))
    }

    /// Notes the newest ticket issued.
    pub(crate) fn set_committed(&self, ticket: Ticket) {
        self.committed.store(ticket.0, Ordering::Release);
    }

    /// The newest ticket on stable storage.
    pub(crate) fn stable(&self) -> Ticket {
        *self.stable.borrow()
    }

    /// Notes the record in the batch of a ticket that is about to be issued. The caller holds the writer's
    /// lock, so that records come in the order of batches.
    pub(crate) fn note_record(&self, ticket: Ticket, position: u64) {
        self.recorded().push_back((ticket, position));
    }

    /// The position up to which all records are stable.
    pub(crate) fn stable_position(&self) -> watch::Receiver<u64> {
        self.stable_position.subscribe()
    }

    /// Requests a flush of a ticket, and waits until it is stable or the store has failed.
    pub(crate) async fn wait(&self, ticket: Ticket, health: &Health) -> vfs::Result<()> {
        let waiting = (self.stable() < ticket).then(|| Waiting::among(&self.waiting));
        if waiting.is_some() {
            self.ask_for(ticket);
        }
        self.wait_lazily(ticket, health).await
    }

    /// Waits until a ticket has become stable with the next flush, at most [`LAZY_INTERVAL`], or the
    /// store has failed.
    pub(crate) async fn wait_lazily(&self, ticket: Ticket, health: &Health) -> vfs::Result<()> {
        let mut stable = self.stable.subscribe();
        if *stable.borrow() < ticket {
            let reached = stable
                .wait_for(|stable| *stable >= ticket || health.has_failed())
                .await;
            reached.map_err(|_| vfs::Error::Io("the store was closed".into()))?;
        }
        health.check()
    }

    /// Lets an operation flush by itself, if no other operation would wait for that flush, and the last flush was
    /// fast and served only one operation. `None` when the ticket is stable, or other operations need a flush, too.
    pub(crate) fn lead(&self, ticket: Ticket) -> Option<Waiting<'_>> {
        if self.stable() >= ticket {
            return None;
        }
        // Under the lock, so that only one operation leads.
        let trips = self.trips();
        let nobody_waits = self.waiting.load(Ordering::Relaxed) == 0 && trips.under_way == 0;
        let alone = nobody_waits && trips.served <= 1 && trips.took < QUICK;
        alone.then(|| Waiting::among(&self.waiting))
    }

    /// Begins a flush.
    pub(crate) fn trip(&self) -> Trip<'_> {
        self.trips().under_way += 1;
        Trip {
            commits: self,
            began: Instant::now(),
        }
    }

    /// Requests a flush of a ticket without waiting for it.
    pub(crate) fn ask_for(&self, ticket: Ticket) {
        let mut request = self.request();
        request.wanted = request.wanted.max(ticket);
        drop(request);
        self.requested.notify_one();
    }

    /// Requests a check of the write buffers.
    pub(crate) fn look(&self) {
        self.request().look = true;
        self.requested.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.request().stop = true;
        self.requested.notify_one();
    }

    /// Announces that everything up to this ticket is stable.
    pub(crate) fn announce(&self, ticket: Ticket) {
        self.stable.send_if_modified(|stable| {
            let newer = ticket > *stable;
            *stable = ticket.max(*stable);
            newer
        });
        let mut recorded = self.recorded();
        let count = recorded.partition_point(|(batch, _)| *batch <= ticket);
        let last = recorded.drain(..count).next_back();
        if let Some((_, position)) = last {
            // Still under the lock, so that positions are announced in order.
            self.stable_position.send_replace(position);
        }
    }

    /// Wakes all waiting tasks, because the store has failed.
    pub(crate) fn announce_failure(&self) {
        self.stable.send_modify(|_| {});
    }

    /// Called by the committing thread: sleeps until there is something to do, at most
    /// [`LAZY_INTERVAL`].
    pub(crate) fn next(&self) -> Wake {
        let stable = self.stable();
        let idle =
            |request: &mut Request| request.wanted <= stable && !request.look && !request.stop;
        let (mut request, timeout) = self
            .requested
            .wait_timeout_while(self.request(), LAZY_INTERVAL, idle)
            .unwrap_or_else(PoisonError::into_inner);
        request.look = false;
        if request.stop {
            return Wake::Stop;
        }
        Wake::Work {
            persist: request.wanted > stable || timeout.timed_out(),
        }
    }

    fn trips(&self) -> MutexGuard<'_, Trips> {
        self.trips.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recorded(&self) -> MutexGuard<'_, VecDeque<(Ticket, u64)>> {
        // After a panic in between, a record is announced together with the next one.
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self) -> MutexGuard<'_, Request> {
        // The fields are valid even if another thread panicked in between.
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stable_ticket_is_not_waited_for() {
        let commits = Commits::new(0);
        let health = Health::default();
        commits.announce(Ticket(3));
        commits.wait(Ticket(3), &health).await.unwrap();
        commits.announce(Ticket(2));
        assert_eq!(commits.stable(), Ticket(3));
    }

    #[tokio::test]
    async fn waiting_asks_the_thread_and_ends_with_its_announcement() {
        let commits = Commits::new(0);
        let health = Health::default();
        let thread = async {
            assert_eq!(commits.next(), Wake::Work { persist: true });
            commits.announce(Ticket(7));
        };
        let (waited, ()) = tokio::join!(commits.wait(Ticket(7), &health), thread);
        waited.unwrap();
    }

    #[tokio::test]
    async fn a_failure_reaches_those_who_wait_and_those_who_come_later() {
        let commits = Commits::new(0);
        let health = Health::default();
        let failing = async {
            health.fail("no more disk");
            commits.announce_failure();
        };
        let (waited, ()) = tokio::join!(commits.wait(Ticket(1), &health), failing);
        assert!(matches!(waited, Err(vfs::Error::Io(_))));
        assert!(health.check().is_err());
    }

    #[tokio::test]
    async fn only_one_who_is_alone_goes_to_a_quick_disk_itself() {
        let commits = Commits::new(0);
        assert!(commits.lead(Ticket(1)).is_none(), "nobody knows the disk");
        drop(commits.trip());
        let leader = commits.lead(Ticket(1)).unwrap();
        assert!(commits.lead(Ticket(2)).is_none(), "somebody leads");
        drop(commits.trip());
        drop(leader);
        let trip = commits.trip();
        assert!(commits.lead(Ticket(2)).is_none(), "a trip is under way");
        drop(trip);
        assert!(commits.lead(Ticket(2)).is_some());
        commits.announce(Ticket(2));
        assert!(commits.lead(Ticket(2)).is_none(), "it is stable");

        let health = Health::default();
        let mut both = Box::pin(async {
            tokio::join!(
                commits.wait(Ticket(3), &health),
                commits.wait(Ticket(4), &health)
            )
        });
        tokio::select! {
            biased;
            _ = &mut both => panic!("nothing was made stable"),
            () = std::future::ready(()) => {}
        }
        assert!(commits.lead(Ticket(5)).is_none(), "two wait already");
        drop(commits.trip());
        commits.announce(Ticket(4));
        let (first, second) = both.await;
        assert!(first.is_ok() && second.is_ok());
        assert!(
            commits.lead(Ticket(5)).is_none(),
            "the last trip served two"
        );
        drop(commits.trip());
        commits.trips().took = QUICK;
        assert!(commits.lead(Ticket(5)).is_none(), "the disk is slow");
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let full = std::io::Error::from(rustix::io::Errno::NOSPC);
        let (lacking, broken) = (Health::default(), Health::default());
        lacking.fail(&format!("metadata store: Io({full:?})"));
        broken.fail("metadata store: Io(Input/output error)");
        assert!(lacking.has_lacked_space() && !broken.has_lacked_space());
    }

    #[test]
    fn a_record_is_stable_with_its_batch() {
        let commits = Commits::new(7);
        let position = commits.stable_position();
        commits.note_record(Ticket(2), 8);
        commits.note_record(Ticket(4), 11);
        commits.announce(Ticket(1));
        assert_eq!(*position.borrow(), 7);
        commits.announce(Ticket(3));
        assert_eq!(*position.borrow(), 8);
        commits.announce(Ticket(9));
        assert_eq!(*position.borrow(), 11);
    }

    #[test]
    fn a_stop_is_seen_even_when_nothing_is_wanted() {
        let commits = Commits::new(0);
        commits.stop();
        assert_eq!(commits.next(), Wake::Stop);
    }
}
