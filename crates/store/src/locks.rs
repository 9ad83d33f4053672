//! Byte-range locks, by owner.
//!
//! A pure table in memory: after a restart clients reclaim their locks. With other replicas the locks of a
//! file are those that its primary has told of last, whoever holds them. It never waits; who wants a
//! lock that is taken learns who holds it.

use std::collections::HashMap;

use vfs::{ByteRange, Error, LockConflict, LockKind, LockOwner, ObjectId, Result};

/// The most separate ranges that can be locked in one file.
const MAX_RANGES: usize = 16_384;

/// One lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) owner: LockOwner,
    pub(crate) range: ByteRange,
    pub(crate) kind: LockKind,
}

/// The locks of all files.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    files: HashMap<ObjectId, Vec<Held>>,
}

impl Locks {
    /// A lock of another owner that stands against this one.
    pub(crate) fn conflict(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Option<LockConflict> {
        let in_the_way = |held: &&Held| {
            held.owner != *owner
                && held.range.overlaps(range)
                && (held.kind == LockKind::Write || kind == LockKind::Write)
        };
        let held = self.files.get(&id)?.iter().find(in_the_way)?;
        Some(LockConflict {
            owner: held.owner.clone(),
            range: held.range,
            kind: held.kind,
        })
    }

    /// Locks a range, whatever the same owner held of it before.
    pub(crate) fn lock(
        &mut self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        if let Some(conflict) = self.conflict(id, owner, range, kind) {
            return Err(Error::Locked(Box::new(conflict)));
        }
        let locks = self.files.entry(id).or_default();
        // A lock in the middle of another splits it in two and is a third.
        if locks.len() + 2 > MAX_RANGES {
            return Err(Error::Delay);
        }
        release(locks, owner, range);
        let whole = absorb_neighbours(locks, owner, range, kind);
        locks.push(Held {
            owner: owner.clone(),
            range: whole,
            kind,
        });
        Ok(())
    }

    /// Unlocks what the owner holds of a range. Releasing part of a lock leaves up to two.
    pub(crate) fn unlock(
        &mut self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
    ) -> Result<()> {
        let Some(locks) = self.files.get_mut(&id) else {
            return Ok(());
        };
        if locks.len() + 1 > MAX_RANGES {
            let whole = |held: &Held| {
                range.start() <= held.range.start() && held.range.last() <= range.last()
            };
            let splits =
                |held: &Held| held.owner == *owner && held.range.overlaps(range) && !whole(held);
            if locks.iter().any(splits) {
                return Err(Error::Delay);
            }
        }
        release(locks, owner, range);
        if locks.is_empty() {
            self.files.remove(&id);
        }
        Ok(())
    }

    pub(crate) fn holds(&self, id: ObjectId, owner: &LockOwner) -> bool {
        self.files
            .get(&id)
            .is_some_and(|locks| locks.iter().any(|held| held.owner == *owner))
    }

    /// All locks of a file.
    pub(crate) fn of(&self, id: ObjectId) -> &[Held] {
        self.files.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Who holds locks on which file, once for each owner and file.
    pub(crate) fn holders(&self) -> Vec<(ObjectId, LockOwner)> {
        let mut holders: Vec<(ObjectId, LockOwner)> = (self.files.iter())
            .flat_map(|(id, locks)| locks.iter().map(|held| (*id, held.owner.clone())))
            .collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    /// A table with the locks of one file only, to try something.
    pub(crate) fn alone(&self, id: ObjectId) -> Locks {
        let mut alone = Locks::default();
        alone.replace(id, self.of(id).to_vec());
        alone
    }

    /// Sets all locks of a file. Returns whether they were others before.
    pub(crate) fn replace(&mut self, id: ObjectId, held: Vec<Held>) -> bool {
        let changed = self.of(id) != held;
        if held.is_empty() {
            self.files.remove(&id);
        } else {
            self.files.insert(id, held);
        }
        changed
    }

    /// The files that have locks.
    pub(crate) fn files(&self) -> impl Iterator<Item = ObjectId> {
        self.files.keys().copied()
    }

    /// Forgets the locks of an object that is gone.
    pub(crate) fn forget(&mut self, id: ObjectId) {
        self.files.remove(&id);
    }
}

/// Takes `range` out of everything the owner holds.
fn release(locks: &mut Vec<Held>, owner: &LockOwner, range: ByteRange) {
    let mut remainders = Vec::new();
    locks.retain(|held| {
        if held.owner != *owner || !held.range.overlaps(range) {
            return true;
        }
        for part in without(held.range, range).into_iter().flatten() {
            remainders.push(Held {
                range: part,
                ..held.clone()
            });
        }
        false
    });
    locks.append(&mut remainders);
}

/// What is left of `whole` before and behind `hole`.
fn without(whole: ByteRange, hole: ByteRange) -> [Option<ByteRange>; 2] {
    let before = hole.start().checked_sub(1);
    let behind = hole.last().checked_add(1);
    [
        before.and_then(|last| ByteRange::from_bounds(whole.start(), last)),
        behind.and_then(|start| ByteRange::from_bounds(start, whole.last())),
    ]
}

/// Removes locks of the same owner and kind that touch `range`, and returns what all cover together.
fn absorb_neighbours(
    locks: &mut Vec<Held>,
    owner: &LockOwner,
    range: ByteRange,
    kind: LockKind,
) -> ByteRange {
    let (mut start, mut last) = (range.start(), range.last());
    locks.retain(|held| {
        let before = held.range.last().checked_add(1) == Some(range.start());
        let behind = range.last().checked_add(1) == Some(held.range.start());
        let merges = held.owner == *owner && held.kind == kind && (before || behind);
        if merges {
            start = start.min(held.range.start());
            last = last.max(held.range.last());
        }
        !merges
    });
    ByteRange::from_bounds(start, last).unwrap_or(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ObjectId = ObjectId::from_u64(5);

    fn owner(name: &str) -> LockOwner {
        LockOwner {
            client: b"client"[..].into(),
            owner: name.as_bytes().into(),
        }
    }

    fn bytes(start: u64, last: u64) -> ByteRange {
        ByteRange::from_bounds(start, last).unwrap()
    }

    fn held(locks: &Locks) -> Vec<(u64, u64, LockKind)> {
        let mut held: Vec<_> = locks.files.get(&FILE).into_iter().flatten().collect();
        held.sort_by_key(|held| held.range.start());
        held.iter()
            .map(|held| (held.range.start(), held.range.last(), held.kind))
            .collect()
    }

    #[test]
    fn readers_share_and_a_writer_excludes() {
        let mut locks = Locks::default();
        locks
            .lock(FILE, &owner("a"), bytes(0, 9), LockKind::Read)
            .unwrap();
        locks
            .lock(FILE, &owner("b"), bytes(5, 14), LockKind::Read)
            .unwrap();
        let refused = locks.lock(FILE, &owner("c"), bytes(14, 20), LockKind::Write);
        let Err(Error::Locked(conflict)) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((conflict.owner, conflict.range), (owner("b"), bytes(5, 14)));
        locks
            .lock(FILE, &owner("c"), bytes(15, 20), LockKind::Write)
            .unwrap();
        assert!(
            locks
                .conflict(FILE, &owner("a"), bytes(20, 20), LockKind::Read)
                .is_some()
        );
    }

    #[test]
    fn unlocking_the_middle_splits() {
        let mut locks = Locks::default();
        locks
            .lock(FILE, &owner("a"), bytes(0, u64::MAX), LockKind::Write)
            .unwrap();
        locks.unlock(FILE, &owner("a"), bytes(10, 19)).unwrap();
        assert_eq!(
            held(&locks),
            [(0, 9, LockKind::Write), (20, u64::MAX, LockKind::Write)]
        );
        locks.unlock(FILE, &owner("a"), bytes(0, u64::MAX)).unwrap();
        assert!(!locks.holds(FILE, &owner("a")) && locks.files.is_empty());
    }

    #[test]
    fn a_new_lock_replaces_what_the_owner_held_and_merges_with_neighbours() {
        let mut locks = Locks::default();
        locks
            .lock(FILE, &owner("a"), bytes(0, 9), LockKind::Write)
            .unwrap();
        locks
            .lock(FILE, &owner("a"), bytes(3, 5), LockKind::Read)
            .unwrap();
        let expected = [
            (0, 2, LockKind::Write),
            (3, 5, LockKind::Read),
            (6, 9, LockKind::Write),
        ];
        assert_eq!(held(&locks), expected);
        locks
            .lock(FILE, &owner("a"), bytes(3, 5), LockKind::Write)
            .unwrap();
        assert_eq!(held(&locks), [(0, 9, LockKind::Write)]);
        locks
            .lock(FILE, &owner("b"), bytes(10, 11), LockKind::Write)
            .unwrap();
        assert_eq!(held(&locks).len(), 2);
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut locks = Locks::default();
        for place in 0..MAX_RANGES as u64 {
            if locks
                .lock(
                    FILE,
                    &owner("a"),
                    bytes(2 * place, 2 * place),
                    LockKind::Read,
                )
                .is_err()
            {
                break;
            }
        }
        let next = bytes(1 << 40, 1 << 40);
        assert_eq!(
            locks.lock(FILE, &owner("a"), next, LockKind::Read),
            Err(Error::Delay)
        );
        locks.unlock(FILE, &owner("a"), bytes(0, 100)).unwrap();
        locks.lock(FILE, &owner("a"), next, LockKind::Read).unwrap();
    }
}
