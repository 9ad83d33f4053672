//! The memory for requests and replies in transit, of all connections together.
//!
//! Requests use one half, replies the other. A running request waits for space for its reply, and never the other way
//! round. A reply is sent as soon as its client reads it, or the client is disconnected. So every waiting request or
//! reply gets space at some time.
//!
//! What must never enter: connections, and the content of a message.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory is counted in units of this number of bytes.
const PIECE_BYTES: usize = 1024;

/// Space for requests, and space for replies.
pub(super) struct Buffers {
    /// For requests that are being received or executed.
    pub(super) requests: Pool,
    /// For replies that are being created or wait to be sent.
    pub(super) replies: Pool,
}

impl Buffers {
    /// With this total number of bytes.
    pub(super) fn new(bytes: u64) -> Buffers {
        Buffers {
            requests: Pool::new(bytes / 2),
            replies: Pool::new(bytes / 2),
        }
    }

    /// The used memory, in bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        self.requests.used_bytes() + self.replies.used_bytes()
    }
}

/// Memory that is allocated in the order of arrival, and returned.
pub(super) struct Pool {
    space: Arc<Semaphore>,
    pieces: u32,
}

/// Allocated memory; it is returned when this is dropped.
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

    /// Takes space for this number of bytes, if available. A larger message than the pool takes all of it.
    pub(super) fn try_take(&self, bytes: usize) -> Option<Space> {
        let space = self.space.clone();
        space
            .try_acquire_many_owned(self.pieces_of(bytes))
            .ok()
            .map(Space)
    }

    /// The same, but waits until space is available.
    pub(super) async fn take(&self, bytes: usize) -> Option<Space> {
        let space = self.space.clone();
        // `None` means a closed semaphore, and this one is never closed.
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
    /// Returns the space that is not needed for this number of bytes.
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
