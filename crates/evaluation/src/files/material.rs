//! The contents of files: bytes that do not compress, a different sequence for every file, and a checksum.
//!
//! What must never enter: files.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fastrand::Rng;

/// The size of one request, and of one part of a checksum.
pub(crate) const BLOCK: usize = 1 << 20;

/// The noise that all contents are cut from.
const POOL: usize = 8 * BLOCK;

/// The content of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Material {
    /// Selects the content.
    seed: u64,
    /// Its length in bytes.
    length: u64,
}

/// The checksum of a content: of its length, and of the checksums of its blocks in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checksum {
    length: u64,
    crc: u32,
}

impl Material {
    /// A content of this length, different for every seed.
    pub(crate) fn new(seed: u64, length: u64) -> Self {
        Self { seed, length }
    }

    /// The number of its blocks; the last may be shorter.
    pub(crate) fn blocks(self) -> u64 {
        self.length.div_ceil(BLOCK as u64)
    }

    /// One of its blocks.
    pub(crate) fn block(self, number: u64) -> Bytes {
        let left = self.length - number * BLOCK as u64;
        let length = left.min(BLOCK as u64) as usize;
        let mut random = Rng::with_seed(self.seed << 20 | number);
        // The first number after a seed is similar for neighbouring seeds.
        let start = random.usize(..=POOL - length);
        noise().slice(start..start + length)
    }

    /// Its checksum.
    pub(crate) fn checksum(self) -> Checksum {
        let crcs = (0..self.blocks()).map(|number| crc32c::crc32c(&self.block(number)));
        Checksum::of(self.length, crcs)
    }
}

impl Checksum {
    /// Of blocks of [`BLOCK`] bytes, by the CRC-32C of each.
    pub(crate) fn of(length: u64, crcs: impl Iterator<Item = u32>) -> Self {
        let crc = crcs.fold(0, |sum, crc| crc32c::crc32c_append(sum, &crc.to_le_bytes()));
        Self { length, crc }
    }
}

/// The same noise for all contents.
fn noise() -> &'static Bytes {
    static NOISE: OnceLock<Arc<Bytes>> = OnceLock::new();
    NOISE.get_or_init(|| {
        let mut random = Rng::with_seed(7);
        let mut noise = vec![0; POOL];
        random.fill(&mut noise);
        Arc::new(noise.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_make_up_the_length_and_differ() {
        let material = Material::new(3, 2 * BLOCK as u64 + 5);
        let lengths: Vec<usize> = (0..3).map(|number| material.block(number).len()).collect();
        assert_eq!((material.blocks(), lengths), (3, vec![BLOCK, BLOCK, 5]));
        assert_ne!(material.block(0), material.block(1));
        assert_ne!(material.block(0), Material::new(4, 9_000_000).block(0));
        assert_eq!(Material::new(1, 0).blocks(), 0);
    }

    #[test]
    fn checksums_tell_contents_and_lengths_apart() {
        let material = Material::new(3, 3_000_000);
        assert_eq!(material.checksum(), Material::new(3, 3_000_000).checksum());
        assert_ne!(material.checksum(), Material::new(4, 3_000_000).checksum());
        assert_ne!(material.checksum(), Material::new(3, 2_999_999).checksum());
        // Reordered blocks are another content.
        let crcs = [1, 2, 3];
        let turned = crcs.iter().rev().copied();
        assert_ne!(Checksum::of(9, crcs.into_iter()), Checksum::of(9, turned));
    }
}
