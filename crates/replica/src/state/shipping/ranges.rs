//! The byte ranges of one file that a peer lacks, in bounded memory.
//!
//! The set may cover more than was added (see [`Ranges::limit`]). It loses a byte only when that byte is removed. It knows nothing of files, peers or
//! time.

use std::ops::Range;

/// A set of byte offsets. The ranges are sorted, not empty, and do not touch each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    sorted: Vec<Range<u64>>,
}

impl Ranges {
    /// Whether the set is empty.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// How many bytes the set contains.
    #[must_use]
    pub(super) fn bytes(&self) -> u128 {
        self.sorted
            .iter()
            .map(|r| u128::from(r.end - r.start))
            .sum()
    }

    /// The parts of `range` that are in the set, lowest first.
    pub(super) fn overlap(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.sorted.partition_point(|r| r.end <= range.start);
        let parts = self.sorted[first..].iter();
        parts
            .map(move |r| r.start.max(range.start)..r.end.min(range.end))
            .take_while(|part| !part.is_empty())
    }

    /// Adds `range`. An empty range changes nothing.
    pub(super) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.sorted.partition_point(|r| r.end < range.start);
        let behind = self.sorted.partition_point(|r| r.start <= range.end);
        let mut joined = range;
        if first < behind {
            joined.start = joined.start.min(self.sorted[first].start);
            joined.end = joined.end.max(self.sorted[behind - 1].end);
        }
        self.sorted.splice(first..behind, [joined]);
    }

    /// Removes `range`. An empty range changes nothing.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.sorted.partition_point(|r| r.end <= range.start);
        let behind = self.sorted.partition_point(|r| r.start < range.end);
        if first >= behind {
            return;
        }
        let before = self.sorted[first].start..range.start;
        let after = range.end..self.sorted[behind - 1].end;
        let rest = [before, after].into_iter().filter(|part| !part.is_empty());
        self.sorted.splice(first..behind, rest);
    }

    /// Removes, and returns, everything from `offset` on.
    pub(super) fn split_off(&mut self, offset: u64) -> Ranges {
        let behind = Ranges {
            sorted: self.overlap(offset..u64::MAX).collect(),
        };
        self.remove(offset..u64::MAX);
        behind
    }

    /// Joins neighbours, the smallest gaps first, until at most `most` ranges are left (at least one).
    pub(super) fn limit(&mut self, most: usize) {
        while self.sorted.len() > most.max(1) {
            let gap = |pair: &[Range<u64>]| pair[1].start - pair[0].end;
            let pairs = self.sorted.windows(2).enumerate();
            let closest = pairs.min_by_key(|(_, pair)| gap(pair));
            let Some((at, _)) = closest else { return };
            self.sorted[at].end = self.sorted[at + 1].end;
            self.sorted.remove(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn ranges(parts: &[(u64, u64)]) -> Ranges {
        let mut set = Ranges::default();
        for &(start, end) in parts {
            set.add(start..end);
        }
        set
    }

    #[test]
    fn touching_ranges_become_one() {
        let set = ranges(&[(0, 5), (10, 15), (5, 10)]);
        assert_eq!(set, ranges(&[(0, 15)]));
    }

    #[test]
    fn the_smallest_gaps_are_closed_first() {
        let mut set = ranges(&[(0, 1), (10, 11), (13, 14), (30, 31)]);
        set.limit(3);
        assert_eq!(set, ranges(&[(0, 1), (10, 14), (30, 31)]));
        set.limit(0);
        assert_eq!(set, ranges(&[(0, 31)]));
    }

    #[test]
    fn everything_of_a_file_has_space() {
        let mut set = ranges(&[(0, u64::MAX), (3, u64::MAX)]);
        assert_eq!(set.bytes(), u128::from(u64::MAX));
        assert_eq!(set.split_off(7), ranges(&[(7, u64::MAX)]));
        assert_eq!(set, ranges(&[(0, 7)]));
    }

    proptest! {
        #[test]
        fn a_set_of_ranges_is_a_set_of_offsets(
            steps in prop::collection::vec((any::<bool>(), 0_u64..40, 0_u64..12), 0..40),
            window in (0_u64..40, 0_u64..12),
        ) {
            let mut set = Ranges::default();
            let mut model = BTreeSet::new();
            for (add, start, count) in steps {
                let range = start..start + count;
                if add {
                    set.add(range.clone());
                    model.extend(range);
                } else {
                    set.remove(range.clone());
                    model.retain(|offset| !range.contains(offset));
                }
            }
            prop_assert_eq!(set.sorted.iter().cloned().flatten().collect::<BTreeSet<_>>(), model.clone());
            let mut pairs = set.sorted.windows(2);
            prop_assert!(pairs.all(|pair| pair[0].end < pair[1].start));
            let window = window.0..window.0 + window.1;
            model.retain(|offset| window.contains(offset));
            prop_assert_eq!(set.overlap(window).flatten().collect::<BTreeSet<_>>(), model);
        }
    }
}
