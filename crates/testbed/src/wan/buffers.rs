//! Memory for frames on their way, allocated once and reused.
//!
//! Most frames are small acknowledgements, so there are three sizes: a long line
//! full of 60-byte packets must not hold 64 KiB for each.
//!
//! What must never enter: what the bytes mean.

/// Space in bytes of each kind of buffer. The last holds the longest IPv4 packet with its virtio
/// header.
const SIZES: [usize; 3] = [2 * 1024, 16 * 1024, 66 * 1024];

/// Free buffers of one kind are kept up to this number of bytes, and freed beyond it.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes with some space.
#[derive(Debug)]
pub(crate) struct Buffer {
    space: Box<[u8]>,
    length: usize,
}

impl Buffer {
    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.space[..self.length]
    }

    /// The bytes, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.space[..self.length]
    }

    /// The whole space, to read into.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        &mut self.space
    }
}

/// Unused buffers.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: [Vec<Box<[u8]>>; 3],
}

impl Pool {
    /// A buffer with space for any frame.
    pub(crate) fn largest(&mut self) -> Buffer {
        self.take(SIZES.len() - 1)
    }

    /// A buffer that is exactly `length` bytes long, at most as long as [`Pool::largest`]. It still has its
    /// earlier content.
    pub(crate) fn sized(&mut self, length: usize) -> Buffer {
        let kind = SIZES.iter().position(|space| length <= *space);
        let mut buffer = self.take(kind.expect("no frame is longer than the largest buffer"));
        buffer.length = length;
        buffer
    }

    /// The first `length` bytes of a buffer from [`Pool::largest`], in the smallest buffer that holds
    /// them. Long ones are not copied: `from` becomes a new buffer instead.
    pub(crate) fn keep(&mut self, from: &mut Buffer, length: usize) -> Buffer {
        if length > SIZES[SIZES.len() - 2] {
            let mut kept = std::mem::replace(from, self.largest());
            kept.length = length;
            return kept;
        }
        let mut kept = self.sized(length);
        kept.space[..length].copy_from_slice(&from.space[..length]);
        kept
    }

    /// Takes a buffer back.
    pub(crate) fn give_back(&mut self, buffer: Buffer) {
        let kind = SIZES.iter().position(|space| buffer.space.len() == *space);
        if let Some(kind) = kind
            && self.free[kind].len() * SIZES[kind] < KEPT_BYTES_MAX
        {
            self.free[kind].push(buffer.space);
        }
    }

    fn take(&mut self, kind: usize) -> Buffer {
        let space = self.free[kind].pop();
        Buffer {
            space: space.unwrap_or_else(|| vec![0; SIZES[kind]].into_boxed_slice()),
            length: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_frames_are_copied_into_small_buffers_and_long_ones_are_not() {
        let mut pool = Pool::default();
        let mut scratch = pool.largest();
        scratch.space()[..3].copy_from_slice(b"abc");
        let short = pool.keep(&mut scratch, 3);
        assert_eq!((short.bytes(), short.space.len()), (&b"abc"[..], SIZES[0]));

        let before = scratch.space.as_ptr();
        let long = pool.keep(&mut scratch, 60_000);
        assert_eq!(long.space.as_ptr(), before);
        assert_eq!(long.bytes().len(), 60_000);
    }

    #[test]
    fn buffers_are_used_again() {
        let mut pool = Pool::default();
        let first = pool.sized(100);
        let place = first.space.as_ptr();
        pool.give_back(first);
        assert_eq!(pool.sized(200).space.as_ptr(), place);
    }
}
