//! The memory that requests and replies take on their way, of all connections together.
//!
//! Requests have one half, replies the other: a request that is executed waits for space for its reply and never the
//! other way round, and a reply goes as soon as its client takes it or is cut off. So each request or reply that waits gets
//! space at some time.
//!
//! What must never enter: connections, and what is in a message.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory is counted in pieces of this many bytes.
const PIECE_BYTES: usize = 1024;

/// Space for requests, and space for replies.
pub(super) struct Buffers {
    /// Of requests that are received, or executed.
    pub(super) requests: Pool,
    /// Of replies that are made, or wait to be sent.
    pub(super) replies: Pool,
}

impl Buffers {
    /// For this many bytes in all.
    pub(super) fn new(bytes: u64) -> Buffers {
        Buffers {
            requests: Pool::new(bytes / 2),
            replies: Pool::new(bytes / 2),
        }
    }

    /// What is taken, in bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        self.requests.used_bytes() + self.replies.used_bytes()
    }
}

/// Memory that is handed out to those who came first, and comes back.
pub(super) struct Pool {
    space: Arc<Semaphore>,
    pieces: u32,
}

/// Memory that was handed out; it goes back when this is dropped.
#[derive(Debug)]
pub(super) struct Space(OwnedSemaphorePermit);

impl Pool {
    fn new(bytes: u64) -> Pool {
        let pieces = bytes / PIECE_BYTES as u64;
        let pieces = u32::try_from(pieces).unwrap_or(u32::MAX).max(1);
        Pool {
            space: Arc::new(Semaphore::new(pieces as usize)),
            pieces,
        }
    }

    fn used_bytes(&self) -> u64 {
        let free = self.space.available_permits();
        (self.pieces as usize).saturating_sub(free) as u64 * PIECE_BYTES as u64
    }

    /// Space for this many bytes, if there is some. What is larger than the pool gets all of it.
    pub(super) fn try_take(&self, bytes: usize) -> Option<Space> {
        let space = self.space.clone();
        space
            .try_acquire_many_owned(self.pieces_of(bytes))
            .ok()
            .map(Space)
    }

    /// The same, as soon as there is some.
    pub(super) async fn take(&self, bytes: usize) -> Option<Space> {
        let space = self.space.clone();
        // `None` stands for a closed semaphore, and this one is never closed.
        space
            .acquire_many_owned(self.pieces_of(bytes))
            .await
            .ok()
            .map(Space)
    }

    fn pieces_of(&self, bytes: usize) -> u32 {
        let pieces = u32::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        pieces.clamp(1, self.pieces)
    }
}

impl Space {
    /// Gives back what is not needed for this many bytes.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        let spare = self
            .0
            .num_permits()
            .saturating_sub(bytes.div_ceil(PIECE_BYTES));
        drop(self.0.split(spare));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let pool = Pool::new(10 << 10);
        let mut space = pool.try_take(8 << 10).unwrap();
        assert!(pool.try_take(3 << 10).is_none());
        space.shrink_to(5000);
        assert_eq!(pool.used_bytes(), 5 << 10);
        let more = pool.try_take(1).unwrap();
        assert_eq!(pool.used_bytes(), 6 << 10);
        drop((space, more));
        assert_eq!(pool.used_bytes(), 0);
        let all = pool.try_take(1 << 40).unwrap();
        assert_eq!(pool.used_bytes(), 10 << 10);
        drop(all);
        assert_eq!(pool.used_bytes(), 0);
    }
}
