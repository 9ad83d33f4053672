//! Inputs for decoders from a seed: random messages, and valid ones with broken parts.
//!
//! Used by the tests that feed decoders with the ordinary toolchain.

/// A small generator of numbers (SplitMix64), so that inputs depend on nothing
/// but the seed.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }

    /// Words as they occur in messages: mostly small numbers, sometimes a huge
    /// one.
    fn word(&mut self) -> u32 {
        match self.below(8) {
            0 => self.number() as u32,
            1 => u32::MAX - self.below(8) as u32,
            2 => 1 << self.below(32),
            _ => self.below(80) as u32,
        }
    }

    /// Up to 60 words, and perhaps an incomplete one.
    pub fn message(&mut self) -> Vec<u8> {
        let words = self.below(60);
        let mut bytes: Vec<u8> = (0..words).flat_map(|_| self.word().to_be_bytes()).collect();
        bytes.truncate(bytes.len() - self.below(bytes.len().min(4)));
        bytes
    }

    /// Breaks a message in one to four places.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            let word = at & !3;
            match self.below(6) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes.truncate(at),
                2 => drop(bytes.splice(word..word, self.word().to_be_bytes())),
                3 => drop(bytes.drain(word..(word + 4).min(bytes.len()))),
                _ if word + 4 <= bytes.len() => {
                    bytes[word..word + 4].copy_from_slice(&self.word().to_be_bytes());
                }
                _ => bytes[at] = self.number() as u8,
            }
        }
    }
}
