//! Pieces that have arrived from one peer and wait until its stream has been applied far enough.
//!
//! The transport's credit bounds the memory: a waiting piece holds its credit.

use control::Position;
use std::collections::BTreeMap;

/// Pieces that arrived in one session with one peer and may not be applied yet. They are dropped when the session ends: the peer sends those ranges
/// again, with their contents at that time.
#[derive(Debug)]
pub struct Arrivals<T> {
    waiting: BTreeMap<(Position, u64), T>,
    count: u64,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Arrivals<T> {
        Arrivals {
            waiting: BTreeMap::new(),
            count: 0,
        }
    }
}

impl<T> Arrivals<T> {
    /// `item` has arrived and follows the update at `follows`.
    pub fn push(&mut self, follows: Position, item: T) {
        self.count += 1;
        self.waiting.insert((follows, self.count), item);
    }

    /// Takes out the items that may be applied once the peer's stream is applied up to `applied`, ordered by position, then by arrival. Items that
    /// the caller does not draw from the iterator stay.
    pub fn ready(&mut self, applied: Position) -> impl Iterator<Item = T> {
        std::iter::from_fn(move || {
            let first = self.waiting.first_entry()?;
            let (follows, _) = *first.key();
            (follows <= applied).then(|| first.remove())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_waits_for_the_position_it_follows() {
        let mut arrivals = Arrivals::default();
        arrivals.push(Position(7), "late");
        arrivals.push(Position(3), "first");
        arrivals.push(Position(3), "second");
        assert_eq!(arrivals.ready(Position(2)).count(), 0);
        assert_eq!(arrivals.ready(Position(6)).next(), Some("first"));
        assert_eq!(arrivals.waiting.len(), 2, "what was not drawn stays");
        let rest: Vec<_> = arrivals.ready(Position(7)).collect();
        assert_eq!(rest, ["second", "late"]);
        assert!(arrivals.waiting.is_empty());
    }
}
