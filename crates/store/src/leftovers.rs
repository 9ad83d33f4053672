//! A queue of the data that removed objects left on disk, for the clearing thread.
//!
//! The table of removals is authoritative and survives a crash. The queue only saves the clearing thread
//! a search through the table, which its removed rows would make slow. When the queue is full, and
//! after a start, the table is searched nevertheless.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vfs::ObjectId;

use crate::wake_signal::WakeSignal;

/// The maximum length of the queue.
const MAX_QUEUED: usize = 1 << 16;

#[derive(Debug)]
struct Queue {
    ids: VecDeque<ObjectId>,
    /// The table may hold more than the queue.
    search: bool,
}

/// The work list of the clearing thread.
#[derive(Debug)]
pub(crate) struct Leftovers {
    queue: Mutex<Queue>,
    /// Held while data is being cleared away.
    clearing: Mutex<()>,
    pub(crate) signal: WakeSignal,
}

impl Leftovers {
    /// The table has to be searched first, for removals of a previous run.
    pub(crate) fn new() -> Leftovers {
        let queue = Queue {
            ids: VecDeque::new(),
            search: true,
        };
        Leftovers {
            queue: Mutex::new(queue),
            clearing: Mutex::default(),
            signal: WakeSignal::default(),
        }
    }

    /// Notes an object that was added to the table of removals.
    pub(crate) fn add(&self, id: ObjectId) {
        let mut queue = self.queue();
        if queue.ids.len() < MAX_QUEUED {
            queue.ids.push_back(id);
        } else {
            queue.search = true;
        }
        drop(queue);
        self.signal.nudge();
    }

    /// Takes at most `count` objects that may be in the table.
    pub(crate) fn take(&self, count: usize) -> Vec<ObjectId> {
        let mut queue = self.queue();
        let count = count.min(queue.ids.len());
        queue.ids.drain(..count).collect()
    }

    /// Whether the table has to be searched; resets this.
    pub(crate) fn take_search(&self) -> bool {
        std::mem::take(&mut self.queue().search)
    }

    /// Notes that the table has to be searched, because clearing was interrupted.
    pub(crate) fn search_again(&self) {
        self.queue().search = true;
    }

    /// Waits for other threads that clear data away, and keeps them out.
    pub(crate) fn clearing(&self) -> MutexGuard<'_, ()> {
        self.clearing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_falls_back_to_a_search() {
        let leftovers = Leftovers::new();
        assert!(leftovers.take_search() && !leftovers.take_search());
        for id in 0..=MAX_QUEUED as u64 {
            leftovers.add(ObjectId::from_u64(id));
        }
        assert_eq!(leftovers.take(usize::MAX).len(), MAX_QUEUED);
        assert!(leftovers.take_search());
        assert!(leftovers.take(10).is_empty());
    }
}
