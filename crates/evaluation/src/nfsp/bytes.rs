//! Contents of files that differ from block to block and from file to file, and do not compress.
//!
//! What must never enter: their place.

use bytes::Bytes;
use fastrand::Rng;

/// The size of one request, and of one stripe.
pub(super) const BLOCK: u64 = super::STRIPE_UNIT;

/// Makes contents.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    noise: Bytes,
    number: u64,
}

impl Contents {
    /// The contents of the file with this number.
    pub(super) fn of(number: u64) -> Self {
        let mut noise = vec![0; 2 * BLOCK as usize];
        Rng::with_seed(number).fill(&mut noise);
        let noise = noise.into();
        Self { noise, number }
    }

    /// The block at an offset, which is a multiple of [`BLOCK`].
    pub(super) fn block(&self, offset: u64) -> Bytes {
        let start = (offset / BLOCK * 4099 % BLOCK) as usize;
        let mut block = self.noise[start..start + BLOCK as usize].to_vec();
        block[..8].copy_from_slice(&offset.to_be_bytes());
        block[8..16].copy_from_slice(&self.number.to_be_bytes());
        block.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_files_differ() {
        let (one, other) = (Contents::of(1), Contents::of(2));
        assert_eq!(one.block(BLOCK).len() as u64, BLOCK);
        assert_eq!(one.block(BLOCK), Contents::of(1).block(BLOCK));
        assert_ne!(one.block(0), one.block(BLOCK));
        assert_ne!(one.block(0), other.block(0));
    }
}
