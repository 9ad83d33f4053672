//! Memory for frames on their way, taken once and used again.
//!
//! Acknowledgements are far more frequent than they are large, so there are three sizes: a long line
//! full of 60-byte packets must not hold 64 KiB for each.
//!
//! What must never enter: what the bytes mean.

/// Room in bytes of each kind of buffer. The last holds the longest IPv4 packet with its virtio
/// header.
const ROOMS: [usize; 3] = [2 * 1024, 16 * 1024, 66 * 1024];

/// Free buffers of one kind are kept up to this many bytes, and given back beyond it.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes with some room.
#[derive(Debug)]
pub(crate) struct Buffer {
    room: Box<[u8]>,
    length: usize,
}

impl Buffer {
    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.room[..self.length]
    }

    /// The bytes, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.room[..self.length]
    }

    /// All the room there is, to be read into.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.room
    }
}

/// Buffers that nobody uses just now.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: [Vec<Box<[u8]>>; 3],
}

impl Pool {
    /// A buffer with room for any frame.
    pub(crate) fn largest(&mut self) -> Buffer {
        self.take(ROOMS.len() - 1)
    }

    /// A buffer that is exactly `length` bytes long, at most as long as [`Pool::largest`]. What was in
    /// it before still is.
    pub(crate) fn sized(&mut self, length: usize) -> Buffer {
        let kind = ROOMS.iter().position(|room| length <= *room);
        let mut buffer = self.take(kind.expect("no frame is longer than the largest buffer"));
        buffer.length = length;
        buffer
    }

    /// The first `length` bytes of a buffer from [`Pool::largest`], in the smallest buffer that holds
    /// them. Long ones are not copied: `from` becomes a new buffer instead.
    pub(crate) fn keep(&mut self, from: &mut Buffer, length: usize) -> Buffer {
        if length > ROOMS[ROOMS.len() - 2] {
            let mut kept = std::mem::replace(from, self.largest());
            kept.length = length;
            return kept;
        }
        let mut kept = self.sized(length);
        kept.room[..length].copy_from_slice(&from.room[..length]);
        kept
    }

    /// Takes a buffer back.
    pub(crate) fn give_back(&mut self, buffer: Buffer) {
        let kind = ROOMS.iter().position(|room| buffer.room.len() == *room);
        if let Some(kind) = kind
            && self.free[kind].len() * ROOMS[kind] < KEPT_BYTES_MAX
        {
            self.free[kind].push(buffer.room);
        }
    }

    fn take(&mut self, kind: usize) -> Buffer {
        let room = self.free[kind].pop();
        Buffer {
            room: room.unwrap_or_else(|| vec![0; ROOMS[kind]].into_boxed_slice()),
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
        scratch.room()[..3].copy_from_slice(b"abc");
        let short = pool.keep(&mut scratch, 3);
        assert_eq!((short.bytes(), short.room.len()), (&b"abc"[..], ROOMS[0]));

        let before = scratch.room.as_ptr();
        let long = pool.keep(&mut scratch, 60_000);
        assert_eq!(long.room.as_ptr(), before);
        assert_eq!(long.bytes().len(), 60_000);
    }

    #[test]
    fn buffers_are_used_again() {
        let mut pool = Pool::default();
        let first = pool.sized(100);
        let place = first.room.as_ptr();
        pool.give_back(first);
        assert_eq!(pool.sized(200).room.as_ptr(), place);
    }
}
