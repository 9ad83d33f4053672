//! Compares reads with the checksums of written data (`sums.rs`), whether the bytes come from the disk or not: the
//! page cache may hold bytes that were read ahead.

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use vfs::{Error, ObjectId, Result};

use super::contents::Holey;
use super::sums::{BLOCK_BYTES, BLOCKS_A_GROUP, UNKNOWN, place_of, sum_of};
use crate::open_store::OpenStore;

/// How often mismatching bytes are read again: another task may have written and closed them in between.
const ATTEMPTS: usize = 3;
const BETWEEN: Duration = Duration::from_millis(2);

/// The whole blocks around some bytes, up to the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Around {
    pub(super) start: u64,
    pub(super) length: usize,
    /// The offset of the wanted bytes in the blocks.
    from: usize,
    wanted: usize,
}

impl Around {
    pub(super) fn new(offset: u64, length: usize, size: u64) -> Around {
        let start = offset - offset % BLOCK_BYTES;
        let end = offset.saturating_add(length as u64).min(size).max(start);
        let end = end.next_multiple_of(BLOCK_BYTES).min(size.max(end));
        let from = (offset - start) as usize;
        let length_read = (end - start) as usize;
        Around {
            start,
            length: length_read,
            from: from.min(length_read),
            wanted: length.min(length_read.saturating_sub(from)),
        }
    }

    /// Exactly these bytes.
    pub(super) fn exactly(offset: u64, length: usize) -> Around {
        Around {
            start: offset,
            length,
            from: 0,
            wanted: length,
        }
    }

    /// The wanted part of these bytes.
    pub(super) fn part(self, bytes: &Bytes) -> Bytes {
        bytes.slice(self.from..self.from + self.wanted)
    }
}

impl OpenStore {
    /// The start of the first block that differs from what was written. `bytes` are whole blocks, read from `start` on; the
    /// last one may end with the file.
    pub(crate) fn changed_in(&self, id: ObjectId, start: u64, bytes: &[u8]) -> Result<Option<u64>> {
        if !self.open_sums.are_made() || self.is_elsewhere(id)? {
            return Ok(None);
        }
        let mut noted: Option<(u64, Vec<u32>)> = None;
        for (block, bytes) in (start / BLOCK_BYTES..).zip(bytes.chunks(BLOCK_BYTES as usize)) {
            let (group, place) = place_of(block);
            if noted.as_ref().is_none_or(|(of, _)| *of != group) {
                noted = Some((group, self.noted_sums(id, group)?));
            }
            let sum = noted.as_ref().and_then(|(_, sums)| sums.get(place));
            let sum = sum.copied().unwrap_or(UNKNOWN);
            // Most blocks match. Only for a mismatch it matters whether the block is being written.
            let fits = |sum| sum == UNKNOWN || sum == sum_of(bytes);
            if fits(sum) || self.open_sums.is_open(id, block) || self.voided.contains(id) {
                continue;
            }
            // The block may have been closed after the lookup of its sum. A block counts as closed only once its sum is in the row.
            let sums = self.noted_sums(id, group)?;
            if !fits(sums.get(place).copied().unwrap_or(UNKNOWN)) {
                return Ok(Some(block * BLOCK_BYTES));
            }
            noted = Some((group, sums));
        }
        Ok(None)
    }

    /// Bytes of a data file as written; zeros in holes. Fewer bytes at the end of the file.
    ///
    /// # Errors
    /// [`Error::Io`] when the disk cannot read them, or has changed them.
    pub(crate) fn read_verified(&self, id: ObjectId, offset: u64, length: usize) -> Result<Bytes> {
        let mut changed = 0;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                thread::sleep(BETWEEN);
            }
            let around = Around::new(offset, length, self.object(id)?.size);
            let mut bytes = vec![0; around.length];
            self.content_of(id)?.read(&mut bytes, around.start)?;
            match self.changed_in(id, around.start, &bytes)? {
                None => return Ok(around.part(&bytes.into())),
                Some(at) => changed = at,
            }
        }
        let (end, called) = (changed + BLOCK_BYTES - 1, self.called(id));
        tracing::error!(
            "bytes {changed} to {end} of {called} are not what was written: the disk has changed them"
        );
        let what = format!("the disk has changed bytes {changed} to {end} of {called}");
        Err(Error::Io(what))
    }
}

// Invariant: a large read looks at few rows.
const _: () = assert!((1 << 20) / BLOCK_BYTES / BLOCKS_A_GROUP < 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_whole_blocks_that_end_with_the_file() {
        let around = |offset, length, size| {
            let around = Around::new(offset, length, size);
            (around.start, around.length, around.from, around.wanted)
        };
        assert_eq!(around(0, 4096, 9000), (0, 4096, 0, 4096));
        assert_eq!(around(5000, 10, 9000), (4096, 4096, 904, 10));
        assert_eq!(around(5000, 4000, 9000), (4096, 4904, 904, 4000));
        assert_eq!(around(8990, 100, 9000), (8192, 808, 798, 10));
        assert_eq!(around(10_000, 100, 9000), (8192, 808, 808, 0));
    }
}
