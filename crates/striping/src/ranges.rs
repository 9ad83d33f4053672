//! Ranges of a file that have changed since they were copied.
//!
//! What must never enter: files.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of bytes, by their offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

/// Most separate ranges. Beyond that, some gaps between ranges count as changed, too.
const MAX: usize = 4096;

impl Ranges {
    /// Adds a range.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return;
        }
        while let Some((from, to)) = self.0.range(..=end).next_back().map(|(a, b)| (*a, *b)) {
            if to < start {
                break;
            }
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
        if self.0.len() > MAX {
            self.close_half();
        }
    }

    /// Closes the gap after every other range.
    fn close_half(&mut self) {
        let mut ranges = std::mem::take(&mut self.0).into_iter();
        while let Some((start, end)) = ranges.next() {
            let end = ranges.next().map_or(end, |(_, end)| end);
            self.0.insert(start, end);
        }
    }

    /// Adds all of another set.
    pub(crate) fn add_all(&mut self, other: &Ranges) {
        for (start, end) in &other.0 {
            self.add(*start..*end);
        }
    }

    /// Takes the parts below an offset.
    pub(crate) fn take_below(&mut self, end: u64) -> Ranges {
        let beyond = self.0.split_off(&end);
        let mut below = std::mem::replace(&mut self.0, beyond);
        if let Some(mut last) = below.last_entry()
            && *last.get() > end
        {
            let to = last.insert(end);
            self.add(end..to);
        }
        Ranges(below)
    }

    /// The number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.iter().map(|range| range.end - range.start).sum()
    }

    /// The ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranges: &[(u64, u64)]) -> Ranges {
        let mut all = Ranges::default();
        for (start, end) in ranges {
            all.add(*start..*end);
        }
        all
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let all = of(&[(10, 20), (30, 40), (20, 25), (5, 5), (50, 60)]);
        let told: Vec<_> = all.iter().collect();
        assert_eq!(told, [10..25, 30..40, 50..60]);
        assert_eq!(all.bytes(), 35);
        assert_eq!(of(&[(30, 40), (10, 20), (0, 100)]), of(&[(0, 100)]));
        assert_eq!(of(&[(10, 20), (15, 18)]), of(&[(10, 20)]));
        assert_eq!(of(&[(10, 20), (15, u64::MAX)]), of(&[(10, u64::MAX)]));
        let mut both = of(&[(0, 1)]);
        both.add_all(&of(&[(1, 2), (7, 8)]));
        assert_eq!(both, of(&[(0, 2), (7, 8)]));
    }

    #[test]
    fn every_byte_is_as_in_a_set_of_bytes() {
        let (mut state, mut all, mut model) = (7_u64, Ranges::default(), vec![false; 64]);
        for _ in 0..500 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (start, length) = ((state >> 33) % 60, (state >> 50) % 4);
            all.add(start..start + length);
            (start..start + length).for_each(|at| model[at as usize] = true);
            let mut told = vec![false; 64];
            for range in all.iter() {
                range.for_each(|at| told[at as usize] = true);
            }
            assert_eq!(told, model);
        }
    }

    #[test]
    fn what_is_taken_and_what_stays_are_all_there_was() {
        let all = of(&[(10, 20), (30, 40), (50, u64::MAX)]);
        for end in [0, 5, 10, 15, 20, 25, 30, 39, 40, 60, u64::MAX] {
            let mut rest = all.clone();
            let taken = rest.take_below(end);
            assert!(taken.iter().all(|range| range.end <= end), "{end}");
            assert!(rest.iter().all(|range| range.start >= end), "{end}");
            rest.add_all(&taken);
            assert_eq!(rest, all, "{end}");
        }
    }

    #[test]
    fn many_ranges_take_no_more_space_and_lose_nothing() {
        let mut all = Ranges::default();
        for at in 0..3 * MAX as u64 {
            all.add(at * 10..at * 10 + 1);
        }
        assert!(all.0.len() <= MAX);
        let told: Vec<_> = all.iter().collect();
        for at in 0..3 * MAX as u64 {
            assert!(told.iter().any(|range| range.contains(&(at * 10))), "{at}");
        }
    }
}
