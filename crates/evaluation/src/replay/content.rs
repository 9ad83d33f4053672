//! The data that replayed programs write: text that compresses about as well as source code, different everywhere.

use fastrand::Rng;

/// The size of the text from which pieces are taken, in bytes.
const POOL: usize = 8 << 20;

/// The number of different words in it.
const WORDS: u64 = 4000;

/// A source of content.
#[derive(Debug)]
pub(crate) struct Text {
    pool: Vec<u8>,
    random: Rng,
}

impl Text {
    /// The same sequence of pieces for every seed.
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut pool = Vec::with_capacity(POOL + 16);
        while pool.len() < POOL {
            // The product makes some words frequent, as in any language.
            let word = random.u64(..WORDS) * random.u64(..WORDS) / WORDS;
            pool.extend_from_slice(format!("{:x} ", word * 2_654_435_761).as_bytes());
        }
        Self { pool, random }
    }

    /// Fills a piece of a file.
    pub(crate) fn fill(&mut self, mut piece: &mut [u8]) {
        while !piece.is_empty() {
            let start = self.random.usize(..POOL);
            let length = piece.len().min(POOL - start);
            let (now, later) = piece.split_at_mut(length);
            now.copy_from_slice(&self.pool[start..start + length]);
            piece = later;
        }
    }
}
