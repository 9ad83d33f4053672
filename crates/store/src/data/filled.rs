//! A write as the checksums see it: the blocks that it fills, whole or in part, and the blocks to check before.
//!
//! What must never enter: how sums become rows (`closing`).

use std::ops::RangeInclusive;
use std::sync::Arc;

use vfs::{ObjectId, Result};

use super::sums::{BLOCK_BYTES, UNKNOWN, place_of, sum_of};
use crate::open_store::{OpenStore, blocking};

/// The blocks that a write fills.
pub(super) struct Filled {
    pub(super) blocks: RangeInclusive<u64>,
    offset: u64,
    end: u64,
}

impl Filled {
    /// `None` for an empty write.
    pub(super) fn by(offset: u64, length: usize) -> Option<Filled> {
        let end = offset.saturating_add(length as u64);
        (length > 0).then(|| Filled {
            blocks: offset / BLOCK_BYTES..=(end - 1) / BLOCK_BYTES,
            offset,
            end,
        })
    }

    /// The blocks at the edges that it fills only in part.
    fn edges(&self) -> impl Iterator<Item = u64> {
        let (first, last) = (*self.blocks.start(), *self.blocks.end());
        let starts_within = !self.offset.is_multiple_of(BLOCK_BYTES);
        let ends_within = !self.end.is_multiple_of(BLOCK_BYTES);
        let one = starts_within.then_some(first);
        let other = (ends_within && (last != first || !starts_within)).then_some(last);
        one.into_iter().chain(other)
    }

    /// The first block filled from its start, and the sums from there on; includes a partial last block if zeros follow.
    pub(super) fn sums(&self, data: &[u8], zeros_follow: bool) -> (u64, Vec<u32>) {
        let skipped = self.offset.next_multiple_of(BLOCK_BYTES) - self.offset;
        let first = self.offset.div_ceil(BLOCK_BYTES);
        let rest = data.get(skipped as usize..).unwrap_or_default();
        let whole = |block: &&[u8]| block.len() as u64 == BLOCK_BYTES || zeros_follow;
        let blocks = rest.chunks(BLOCK_BYTES as usize).filter(whole);
        (first, blocks.map(sum_of).collect())
    }
}

impl OpenStore {
    /// Whether a write fills blocks in part whose other bytes the disk may have changed; these bytes would be read back.
    pub(super) fn needs_check(&self, id: ObjectId, filled: &Filled) -> bool {
        self.open_sums.are_made() && filled.edges().any(|block| self.has_sum(id, block))
    }

    /// Whether the sum of a block is known.
    fn has_sum(&self, id: ObjectId, block: u64) -> bool {
        let (group, place) = place_of(block);
        !self.open_sums.is_open(id, block)
            && (self.noted_sums(id, group)).map_or(true, |sums| {
                sums.get(place).is_some_and(|sum| *sum != UNKNOWN)
            })
    }

    /// Fails if the disk has changed a block that one of these offsets splits, unless the file is known to be damaged. The caller is about to cut off or punch one side, and
    /// the sum of the rest would be read back from the disk.
    pub(super) async fn check_split(self: &Arc<Self>, id: ObjectId, places: &[u64]) -> Result<()> {
        let split = places
            .iter()
            .filter(|place| !place.is_multiple_of(BLOCK_BYTES));
        let blocks = split.map(|place| place / BLOCK_BYTES);
        // Damaged contents are not read before all of them are replaced or gone.
        let blocks: Vec<u64> = match self.open_sums.are_made() && !self.damaged.contains(id) {
            true => blocks.filter(|block| self.has_sum(id, *block)).collect(),
            false => return Ok(()),
        };
        if blocks.is_empty() {
            return Ok(());
        }
        let store = Arc::clone(self);
        blocking(move || {
            let mut blocks = blocks.into_iter();
            blocks.try_for_each(|block| store.check_block(id, block))
        })
        .await
    }

    /// Fails if the disk has changed a block that this write fills only in part.
    pub(super) fn check_edges(&self, id: ObjectId, filled: &Filled) -> Result<()> {
        filled
            .edges()
            .try_for_each(|block| self.check_block(id, block))
    }

    /// Fails if the disk has changed a block: after a partial write its other bytes would be read back.
    fn check_block(&self, id: ObjectId, block: u64) -> Result<()> {
        match self.open_sums.is_open(id, block) {
            true => Ok(()),
            false => {
                let read = self.read_verified(id, block * BLOCK_BYTES, BLOCK_BYTES as usize);
                read.map(|_| ())
            }
        }
    }
}
