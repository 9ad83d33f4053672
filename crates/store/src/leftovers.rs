//! What removed objects left on disk, on its way to be cleared away.
//!
//! The table of removals is the truth; it survives a crash. This queue only spares the clearing thread
//! a search through the table, whose removed rows would make it slow. When the queue is full, or
//! after a start, the table is searched after all.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vfs::ObjectId;

use crate::wake_signal::WakeSignal;

/// Removed objects known without searching.
const MAX_QUEUED: usize = 1 << 16;

#[derive(Debug)]
struct Queue {
    ids: VecDeque<ObjectId>,
    /// There may be more in the table than in the queue.
    search: bool,
}

/// Tells the clearing thread what there is to do.
#[derive(Debug)]
pub(crate) struct Leftovers {
    queue: Mutex<Queue>,
    /// Held while something is cleared away.
    clearing: Mutex<()>,
    pub(crate) signal: WakeSignal,
}

impl Leftovers {
    /// What a previous run left has to be searched for.
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

    /// An object was listed in the table of removals.
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

    /// Some objects that may be listed, at most `count`.
    pub(crate) fn take(&self, count: usize) -> Vec<ObjectId> {
        let mut queue = self.queue();
        let count = count.min(queue.ids.len());
        queue.ids.drain(..count).collect()
    }

    /// Whether the table has to be searched; asked once.
    pub(crate) fn take_search(&self) -> bool {
        std::mem::take(&mut self.queue().search)
    }

    /// The table has to be searched after all, because clearing was interrupted.
    pub(crate) fn search_again(&self) {
        self.queue().search = true;
    }

    /// Waits for everybody else who clears something away, and keeps them out.
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
