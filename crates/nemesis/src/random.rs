//! Random numbers that are the same in every run with the same seed.
//!
//! What must never enter: the machine's own randomness.

use fastrand::Rng;

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub struct Random(Rng);

impl Random {
    /// Another sequence for every pair of seed and stream.
    pub fn new(seed: u64, stream: u64) -> Self {
        let seed = seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93);
        Self(Rng::with_seed(seed))
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.u64(low..=high)
    }

    /// One of these choices; none if there are no choices.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        self.0.choice(choices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence_and_streams_differ() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [(); 8].map(|()| random.below(1000))
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
        let mut random = Random::new(1, 1);
        assert!((0..500).all(|_| (3..=5).contains(&random.between(3, 5))));
        assert_eq!(random.one_of::<u8>(&[]), None);
    }
}
