//! The state of a lane that its senders, its current connection and its handler share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Notify, watch};

use super::{Inbox, Outbox, Outgoing, ReportDue};
use crate::error::SendError;
use crate::message::Lane;

/// Locks, and continues after a panic in another task: every change under these locks is complete when it becomes
/// visible.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One lane of a session. Connections come and go; this stays.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub lane: Lane,
    /// 0 control, 1 metadata, 2 and up data.
    pub index: u32,
    pub outbox: Mutex<Outbox>,
    pub inbox: Mutex<Inbox>,
    /// Notified when the connection's writer may have work.
    pub wake: Notify,
    /// Whether the writer checks soon, without a wake-up, whether a report is due.
    looks_soon: AtomicBool,
    /// Notified when the outbox may have space.
    space: Notify,
    /// The number of connections so far. Only the newest may write. 0 before the first.
    generation: watch::Sender<u64>,
    /// The generation that is alive, or 0.
    connected: watch::Sender<u64>,
}

impl LaneState {
    pub(crate) fn new(lane: Lane, index: u32, window: u64) -> LaneState {
        LaneState {
            lane,
            index,
            outbox: Mutex::new(Outbox::new(window)),
            inbox: Mutex::new(Inbox::new(window)),
            wake: Notify::new(),
            looks_soon: AtomicBool::new(false),
            space: Notify::new(),
            generation: watch::Sender::new(0),
            connected: watch::Sender::new(0),
        }
    }

    /// Registers a new connection: earlier ones stop.
    pub(crate) fn begin_connection(&self) -> u64 {
        let mut generation = 0;
        self.connected.send_modify(|connected| {
            self.generation.send_modify(|newest| {
                *newest += 1;
                generation = *newest;
            });
            *connected = generation;
        });
        generation
    }

    /// A connection is over.
    pub(crate) fn end_connection(&self, generation: u64) {
        self.connected.send_if_modified(|connected| {
            let ends = *connected == generation;
            if ends {
                *connected = 0;
            }
            ends
        });
    }

    pub(crate) fn is_connected(&self) -> bool {
        *self.connected.borrow() != 0
    }

    /// Waits until there is a connection.
    pub(crate) async fn connected(&self) {
        let mut connected = self.connected.subscribe();
        // The sender lives in `self`.
        let _ = connected.wait_for(|generation| *generation != 0).await;
    }

    pub(crate) fn is_current(&self, generation: u64) -> bool {
        *self.generation.borrow() == generation
    }

    /// Waits until a newer connection takes over.
    pub(crate) async fn superseded(&self, generation: u64) {
        let mut watch = self.generation.subscribe();
        // The sender lives in `self`, so this returns only when there is a newer generation.
        let _ = watch.wait_for(|newest| *newest != generation).await;
    }

    /// Queues at once, or returns an error when there is no space.
    pub(crate) fn try_push(&self, message: Outgoing) -> Result<(), SendError> {
        {
            let mut outbox = locked(&self.outbox);
            if !outbox.has_space(message.cost) {
                return Err(SendError::Full(self.lane));
            }
            outbox.push(message);
        }
        self.wake.notify_one();
        Ok(())
    }

    /// Queues a reply, for which there is always space.
    pub(crate) fn push_reply(&self, message: Outgoing) {
        locked(&self.outbox).push(message);
        self.wake.notify_one();
    }

    /// Queues as soon as there is space.
    pub(crate) async fn push(&self, message: Outgoing) {
        let mut message = Some(message);
        loop {
            let notified = self.space.notified();
            tokio::pin!(notified);
            // Registered before the check, because otherwise space that is freed in between would go unnoticed.
            notified.as_mut().enable();
            {
                let mut outbox = locked(&self.outbox);
                let cost = message.as_ref().map_or(0, |message| message.cost);
                if outbox.has_space(cost) {
                    message
                        .take()
                        .into_iter()
                        .for_each(|message| outbox.push(message));
                    break;
                }
            }
            notified.await;
        }
        self.wake.notify_one();
    }

    /// Notifies all tasks that wait for space.
    pub(crate) fn notify_of_space(&self) {
        self.space.notify_waiters();
    }

    /// Whether the waiting replies have reached a size at which no further request should begin.
    pub(crate) fn is_choked_by_replies(&self) -> bool {
        locked(&self.outbox).is_choked_by_replies()
    }

    pub(crate) fn queued(&self) -> u64 {
        locked(&self.outbox).queued()
    }

    fn consume(&self, cost: u64) {
        let due = {
            let mut inbox = locked(&self.inbox);
            inbox.consume(cost);
            inbox.report_due()
        };
        self.wake_for_report(due);
    }

    /// Records whether the writer checks soon by itself. Called after the writer has read what is due.
    pub(crate) fn note_looks_soon(&self, looks_soon: bool) {
        self.looks_soon.store(looks_soon, Ordering::SeqCst);
    }

    /// Wakes the writer when a report is due, unless the report can wait until the writer checks by itself. Called
    /// after the report was recorded under the inbox's lock.
    pub(crate) fn wake_for_report(&self, due: ReportDue) {
        let wakes = match due {
            ReportDue::Never => false,
            ReportDue::Soon => !self.looks_soon.load(Ordering::SeqCst),
            ReportDue::Now => true,
        };
        if wakes {
            self.wake.notify_one();
        }
    }
}

/// Returns credit when it is dropped.
pub(crate) struct Consumed {
    /// Weak, because a lane holds replies that hold the credit of their request.
    lane: Weak<LaneState>,
    cost: u64,
}

impl Consumed {
    pub(crate) fn new(lane: &Arc<LaneState>, cost: u64) -> Consumed {
        Consumed {
            lane: Arc::downgrade(lane),
            cost,
        }
    }
}

impl std::fmt::Debug for Consumed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of credit", self.cost)
    }
}

impl Drop for Consumed {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.upgrade() {
            lane.consume(self.cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn is_woken(lane: &LaneState) -> bool {
        let woken = tokio::time::timeout(Duration::ZERO, lane.wake.notified());
        woken.await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_that_may_wait_does_not_wake_a_writer_that_looks_soon() {
        let lane = LaneState::new(Lane::Metadata, 1, 1 << 20);
        lane.wake_for_report(ReportDue::Soon);
        assert!(is_woken(&lane).await);
        lane.note_looks_soon(true);
        lane.wake_for_report(ReportDue::Soon);
        assert!(!is_woken(&lane).await);
        lane.wake_for_report(ReportDue::Now);
        assert!(is_woken(&lane).await);
        lane.note_looks_soon(false);
        lane.wake_for_report(ReportDue::Never);
        assert!(!is_woken(&lane).await);
    }
}
