//! Reusable memory for large reads.
//!
//! A fresh megabyte costs a page fault for every page, which is more than copying the
//! data into it. The old content of a buffer must never be visible: [`Buffer::finish`] clears
//! every part that was not filled.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// The size of a buffer. Larger reads do not occur in practice; they would get fresh memory.
const BUFFER_BYTES: usize = 1 << 20;
/// Smaller reads get fresh memory too.
const SMALL_BYTES: usize = 64 << 10;
/// The number of idle buffers that are kept.
const IDLE: usize = 32;

/// The buffers that are not in use.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    idle: Mutex<Vec<Vec<u8>>>,
}

/// Memory to read into.
#[derive(Debug)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    length: usize,
    home: Option<Arc<Buffers>>,
}

impl Buffers {
    /// Memory for `length` bytes, with any content.
    pub(super) fn take(self: &Arc<Self>, length: usize) -> Buffer {
        if !(SMALL_BYTES..=BUFFER_BYTES).contains(&length) {
            return Buffer {
                memory: vec![0; length],
                length,
                home: None,
            };
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let used_before = idle.pop();
        drop(idle);
        Buffer {
            memory: used_before.unwrap_or_else(|| vec![0; BUFFER_BYTES]),
            length,
            home: Some(Arc::clone(self)),
        }
    }

    fn give_back(&self, memory: Vec<u8>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(memory);
        }
    }
}

impl Buffer {
    /// The bytes to fill.
    pub(super) fn space(&mut self) -> &mut [u8] {
        &mut self.memory[..self.length]
    }

    /// Returns the first `filled` bytes, followed by zeros.
    pub(super) fn finish(mut self, filled: usize) -> Bytes {
        self.space()[filled..].fill(0);
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give_back(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_shows_nothing_of_before() {
        let buffers = Arc::new(Buffers::default());
        let mut first = buffers.take(100_000);
        first.space().fill(7);
        let place = first.memory.as_ptr();
        drop(first.finish(100_000));
        let second = buffers.take(BUFFER_BYTES);
        assert_eq!(second.memory.as_ptr(), place);
        let shown = second.finish(3);
        assert_eq!(&shown[..4], [7, 7, 7, 0]);
        assert!(shown[3..].iter().all(|byte| *byte == 0));
        drop(shown);
        assert_eq!(buffers.idle.lock().unwrap().len(), 1);
    }

    #[test]
    fn small_and_huge_reads_have_memory_of_their_own() {
        let buffers = Arc::new(Buffers::default());
        for length in [0, 10, SMALL_BYTES - 1, BUFFER_BYTES + 1] {
            let bytes = buffers.take(length).finish(0);
            assert_eq!(bytes.len(), length);
        }
        assert!(buffers.idle.lock().unwrap().is_empty());
    }
}
