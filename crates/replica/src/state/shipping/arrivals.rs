//! Pieces that have arrived from one peer and wait until its stream has been applied far enough.
//!
//! Memory is bounded by the transport's credit, which whatever is kept here holds on to.

use control::Position;
use std::collections::BTreeMap;

/// What has arrived in one session with one peer and may not be applied yet. When the session ends it is
/// dropped with everything in it: the peer sends that again, as it is then.
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

    /// Takes out what may be applied once the peer's stream is applied up to `applied`, by position, then
    /// as it arrived. What is not drawn from the iterator stays.
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
