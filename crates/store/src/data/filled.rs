//! What a write is for the checksums: which blocks it fills, in whole or in part, and what has to be looked at before.
//!
//! What must never enter: how sums become rows (`closing`).

use std::ops::RangeInclusive;
use std::sync::Arc;

use vfs::{ObjectId, Result};

use super::sums::{BLOCK_BYTES, UNKNOWN, place_of, sum_of};
use crate::open_store::{OpenStore, blocking};

/// What a write is for the sums: which blocks it fills.
pub(super) struct Filled {
    pub(super) blocks: RangeInclusive<u64>,
    offset: u64,
    end: u64,
}

impl Filled {
    /// `None` for nothing.
    pub(super) fn by(offset: u64, length: usize) -> Option<Filled> {
        let end = offset.saturating_add(length as u64);
        (length > 0).then(|| Filled {
            blocks: offset / BLOCK_BYTES..=(end - 1) / BLOCK_BYTES,
            offset,
            end,
        })
    }

    /// The blocks at the edges that it fills in part.
    fn edges(&self) -> impl Iterator<Item = u64> {
        let (first, last) = (*self.blocks.start(), *self.blocks.end());
        let starts_within = !self.offset.is_multiple_of(BLOCK_BYTES);
        let ends_within = !self.end.is_multiple_of(BLOCK_BYTES);
        let one = starts_within.then_some(first);
        let other = (ends_within && (last != first || !starts_within)).then_some(last);
        one.into_iter().chain(other)
    }

    /// The first block that it fills, and the sums from there on; with the last one in part, if zeros follow.
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
    /// Whether a write would have bytes read back that lie beside it, in blocks that the disk may have changed.
    pub(super) fn needs_check(&self, id: ObjectId, filled: &Filled) -> bool {
        self.open_sums.are_made() && filled.edges().any(|block| self.has_sum(id, block))
    }

    /// Whether it is known what a block should be.
    fn has_sum(&self, id: ObjectId, block: u64) -> bool {
        let (group, place) = place_of(block);
        !self.open_sums.is_open(id, block)
            && (self.noted_sums(id, group)).map_or(true, |sums| {
                sums.get(place).is_some_and(|sum| *sum != UNKNOWN)
            })
    }

    /// Refuses to cut off, or to make a hole of, what lies on one side of some places, if the disk has changed the blocks that
    /// these are in: what stays of them would be read back.
    pub(super) async fn check_split(self: &Arc<Self>, id: ObjectId, places: &[u64]) -> Result<()> {
        let split = places
            .iter()
            .filter(|place| !place.is_multiple_of(BLOCK_BYTES));
        let blocks = split.map(|place| place / BLOCK_BYTES);
        let blocks: Vec<u64> = match self.open_sums.are_made() {
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

    /// Refuses it if it has.
    pub(super) fn check_edges(&self, id: ObjectId, filled: &Filled) -> Result<()> {
        filled
            .edges()
            .try_for_each(|block| self.check_block(id, block))
    }

    /// One who writes a block only in part would have what the disk has made of the rest read back.
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
