//! The locks of one owner on one file.
//!
//! What must never enter: the locks of other owners.

use vfs::{ByteRange, LockKind};

/// Ranges in order. None touches another range of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(ByteRange, LockKind)>);

impl Ranges {
    /// Whether nothing is locked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The locked ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ByteRange, LockKind)> {
        self.0.iter().copied()
    }

    /// Locks a range, whatever lock the owner had on it.
    pub fn lock(&mut self, range: ByteRange, kind: LockKind) {
        self.unlock(range);
        let (mut start, mut last) = (range.start(), range.last());
        self.0.retain(|(one, of)| {
            let before = one.last().checked_add(1) == Some(range.start());
            let behind = range.last().checked_add(1) == Some(one.start());
            let joins = *of == kind && (before || behind);
            if joins {
                start = start.min(one.start());
                last = last.max(one.last());
            }
            !joins
        });
        let at = self.0.partition_point(|(one, _)| one.start() < start);
        let whole = ByteRange::from_bounds(start, last).unwrap_or(range);
        self.0.insert(at, (whole, kind));
    }

    /// Unlocks the locked parts of a range.
    pub fn unlock(&mut self, range: ByteRange) {
        let held = std::mem::take(&mut self.0);
        for (one, kind) in held {
            if !one.overlaps(range) {
                self.0.push((one, kind));
                continue;
            }
            for left in [before(one, range), behind(one, range)] {
                self.0.extend(left.map(|left| (left, kind)));
            }
        }
    }

    /// The ranges that are not locked.
    #[must_use]
    pub fn gaps(&self) -> Vec<ByteRange> {
        let mut gaps = Vec::new();
        let mut rest = Some(ByteRange::EVERYTHING);
        for (one, _) in self.iter() {
            let Some(whole) = rest else { break };
            gaps.extend(before(whole, one));
            rest = behind(whole, one);
        }
        gaps.extend(rest);
        gaps
    }
}

/// The part of `whole` before `part`.
fn before(whole: ByteRange, part: ByteRange) -> Option<ByteRange> {
    ByteRange::from_bounds(whole.start(), part.start().checked_sub(1)?)
}

/// The part of `whole` behind `part`.
fn behind(whole: ByteRange, part: ByteRange) -> Option<ByteRange> {
    ByteRange::from_bounds(part.last().checked_add(1)?, whole.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, last: u64) -> ByteRange {
        ByteRange::from_bounds(start, last).unwrap()
    }

    #[test]
    fn ranges_are_split_joined_and_told_with_what_lies_between() {
        let mut held = Ranges::default();
        assert_eq!(held.gaps(), [ByteRange::EVERYTHING]);
        held.lock(range(10, 29), LockKind::Write);
        held.unlock(range(15, 19));
        held.lock(range(12, 13), LockKind::Read);
        let parts = [
            (range(10, 11), LockKind::Write),
            (range(12, 13), LockKind::Read),
            (range(14, 14), LockKind::Write),
            (range(20, 29), LockKind::Write),
        ];
        assert!(held.iter().eq(parts));
        let between = [range(0, 9), range(15, 19), range(30, u64::MAX)];
        assert_eq!(held.gaps(), between);
        held.lock(range(12, 13), LockKind::Write);
        held.lock(range(15, 19), LockKind::Write);
        assert!(held.iter().eq([(range(10, 29), LockKind::Write)]));
        held.lock(ByteRange::EVERYTHING, LockKind::Read);
        assert!(held.gaps().is_empty());
        held.unlock(ByteRange::EVERYTHING);
        assert!(held.is_empty());
    }
}
