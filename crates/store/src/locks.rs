//! Byte-range locks, by owner.
//!
//! A pure table in memory: after a restart clients reclaim their locks. With other replicas the locks of a
//! file are those that its primary has reported last, for clients of all replicas. It never waits; a caller
//! that requests a conflicting lock gets the holder.

use std::collections::HashMap;
use std::sync::Arc;

use vfs::{ByteRange, Error, LockConflict, LockKind, LockOwner, ObjectId, Result};

/// The maximum number of separate locked ranges in one file.
const MAX_RANGES: usize = 16_384;
/// The maximum of one client, in all files together.
const MAX_RANGES_OF_CLIENT: usize = 65_536;
/// The maximum of all clients, which takes about 240 MB. Beyond it only clients with few ranges get more.
const MAX_RANGES_OF_ALL: usize = 1 << 21;
const FEW_RANGES: usize = 64;

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
    /// The number of locked ranges of each client in all files.
    of_clients: HashMap<Arc<[u8]>, usize>,
    /// The number of locked ranges of all clients.
    of_all: usize,
}

impl Locks {
    /// A lock of another owner that conflicts with this one.
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

    /// Locks a range, and replaces what the same owner held of it. [`Error::NoSpace`] when there would be too many ranges.
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
        // A lock in the middle of another splits that into two, and is a third.
        let more = if self.splits(id, owner, range) { 2 } else { 1 };
        self.check_space(id, owner, more)?;
        let locks = self.files.entry(id).or_default();
        let before = locks.len();
        release(locks, owner, range);
        let whole = absorb_neighbours(locks, owner, range, kind);
        locks.push(Held {
            owner: owner.clone(),
            range: whole,
            kind,
        });
        let after = locks.len();
        self.recount(owner, before, after);
        Ok(())
    }

    /// Unlocks what the owner holds of a range. Releasing the middle of a lock leaves two: [`Error::NoSpace`] when these are
    /// too many.
    pub(crate) fn unlock(
        &mut self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
    ) -> Result<()> {
        if self.splits(id, owner, range) {
            self.check_space(id, owner, 1)?;
        }
        let Some(locks) = self.files.get_mut(&id) else {
            return Ok(());
        };
        let before = locks.len();
        release(locks, owner, range);
        let after = locks.len();
        if locks.is_empty() {
            self.files.remove(&id);
        }
        self.recount(owner, before, after);
        Ok(())
    }

    /// Whether a lock of this owner extends beyond both ends of a range.
    fn splits(&self, id: ObjectId, owner: &LockOwner, range: ByteRange) -> bool {
        let surrounds =
            |held: &Held| held.range.start() < range.start() && range.last() < held.range.last();
        let mut locks = self.of(id).iter();
        locks.any(|held| held.owner == *owner && surrounds(held))
    }

    /// Whether there is space for `more` additional ranges.
    fn check_space(&self, id: ObjectId, owner: &LockOwner, more: usize) -> Result<()> {
        let of_client = self.of_clients.get(&owner.client).copied();
        let of_client = of_client.unwrap_or_default() + more;
        let fits = self.of(id).len() + more <= MAX_RANGES
            && of_client <= MAX_RANGES_OF_CLIENT
            && (of_client <= FEW_RANGES || self.of_all + more <= MAX_RANGES_OF_ALL);
        if fits { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Updates the counts: a file has `after` locked ranges, and had `before`; only the client of this owner has more or fewer.
    fn recount(&mut self, owner: &LockOwner, before: usize, after: usize) {
        self.of_all = (self.of_all + after).saturating_sub(before);
        let count = self.of_clients.entry(owner.client.clone()).or_default();
        *count = (*count + after).saturating_sub(before);
        if *count == 0 {
            self.of_clients.remove(&owner.client);
        }
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

    /// The holders of locks on each file, once for each owner and file.
    pub(crate) fn holders(&self) -> Vec<(ObjectId, LockOwner)> {
        let mut holders: Vec<(ObjectId, LockOwner)> = (self.files.iter())
            .flat_map(|(id, locks)| locks.iter().map(|held| (*id, held.owner.clone())))
            .collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    /// A table with the locks of one file only, to try a change of this owner.
    pub(crate) fn alone(&self, id: ObjectId, owner: &LockOwner) -> Locks {
        let of_client = self.of_clients.get_key_value(&owner.client);
        let of_client = of_client.map(|(client, count)| (client.clone(), *count));
        Locks {
            files: HashMap::from([(id, self.of(id).to_vec())]),
            of_clients: of_client.into_iter().collect(),
            of_all: self.of_all,
        }
    }

    /// Sets all locks of a file. Returns whether they differ from before.
    pub(crate) fn replace(&mut self, id: ObjectId, held: Vec<Held>) -> bool {
        let changed = self.of(id) != held;
        self.forget(id);
        for one in &held {
            self.recount(&one.owner, 0, 1);
        }
        if !held.is_empty() {
            self.files.insert(id, held);
        }
        changed
    }

    /// The files that have locks.
    pub(crate) fn files(&self) -> impl Iterator<Item = ObjectId> {
        self.files.keys().copied()
    }

    /// Forgets the locks of a removed object.
    pub(crate) fn forget(&mut self, id: ObjectId) {
        for one in self.files.remove(&id).unwrap_or_default() {
            self.recount(&one.owner, 1, 0);
        }
    }
}

/// Removes `range` from all locks of the owner.
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

/// The parts of `whole` before and after `hole`.
fn without(whole: ByteRange, hole: ByteRange) -> [Option<ByteRange>; 2] {
    let before = hole.start().checked_sub(1);
    let behind = hole.last().checked_add(1);
    [
        before.and_then(|last| ByteRange::from_bounds(whole.start(), last)),
        behind.and_then(|start| ByteRange::from_bounds(start, whole.last())),
    ]
}

/// Removes locks of the same owner and kind that touch `range`, and returns the union of all.
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

    /// Locks up to `count` separate ranges of a file; returns how many were granted.
    fn lock_many(locks: &mut Locks, file: ObjectId, owner: &LockOwner, count: usize) -> usize {
        let places = (0..count as u64).map(|place| bytes(2 * place, 2 * place));
        let granted = |range: &ByteRange| {
            let outcome = locks.lock(file, owner, *range, LockKind::Read);
            assert!(matches!(outcome, Ok(()) | Err(Error::NoSpace)));
            outcome.is_ok()
        };
        places.take_while(granted).count()
    }

    const NEXT: u64 = 1 << 40;

    #[test]
    fn the_number_of_ranges_in_a_file_is_bounded() {
        let mut locks = Locks::default();
        let most = lock_many(&mut locks, FILE, &owner("a"), MAX_RANGES + 1);
        assert_eq!(most, MAX_RANGES);
        let next = bytes(NEXT, NEXT);
        let refused = locks.lock(FILE, &owner("b"), next, LockKind::Read);
        assert_eq!(refused, Err(Error::NoSpace));
        locks.unlock(FILE, &owner("a"), bytes(0, 100)).unwrap();
        locks.lock(FILE, &owner("b"), next, LockKind::Read).unwrap();
    }

    #[test]
    fn the_number_of_ranges_of_a_client_is_bounded_over_all_files() {
        const EACH: usize = 128;
        let mut locks = Locks::default();
        let files = (0..=MAX_RANGES_OF_CLIENT / EACH).map(|file| ObjectId::from_u64(file as u64));
        let mut locked = 0;
        for (file, name) in files.clone().zip(["a", "b"].iter().cycle()) {
            locked += lock_many(&mut locks, file, &owner(name), EACH);
        }
        assert_eq!(locked, MAX_RANGES_OF_CLIENT);
        let (next, other) = (
            bytes(NEXT, NEXT),
            LockOwner {
                client: b"other"[..].into(),
                ..owner("a")
            },
        );
        let mut tried = locks.alone(FILE, &owner("c"));
        for table in [&mut locks, &mut tried] {
            let refused = table.lock(FILE, &owner("c"), next, LockKind::Read);
            assert_eq!(refused, Err(Error::NoSpace));
            table.lock(FILE, &other, next, LockKind::Read).unwrap();
        }
        // Half of a lock adds one range, all of it removes one.
        locks.unlock(FILE, &other, next).unwrap();
        locks.forget(FILE);
        locks
            .lock(FILE, &owner("c"), bytes(0, 9), LockKind::Read)
            .unwrap();
        for file in files {
            locks.replace(file, Vec::new());
        }
        assert!(locks.of_clients.is_empty() && locks.files.is_empty());
        assert_eq!(locks.of_all, 0);
    }

    /// Each client was bounded, but the maximum number of clients could take seventy gigabytes.
    #[test]
    fn the_number_of_ranges_of_all_clients_is_bounded_and_who_has_few_gets_more() {
        const EACH: usize = 128;
        let mut locks = Locks {
            of_all: MAX_RANGES_OF_ALL - EACH,
            ..Locks::default()
        };
        let of = |client: &str| LockOwner {
            client: client.as_bytes().into(),
            ..owner("o")
        };
        let file = |number| ObjectId::from_u64(number);
        assert_eq!(lock_many(&mut locks, file(1), &of("one"), 2 * EACH), EACH);
        let next = bytes(NEXT, NEXT);
        let mut tried = locks.alone(file(2), &of("one"));
        for table in [&mut locks, &mut tried] {
            let refused = table.lock(file(2), &of("one"), next, LockKind::Read);
            assert_eq!(refused, Err(Error::NoSpace));
        }
        let few = lock_many(&mut locks, file(3), &of("another"), EACH);
        assert_eq!(few, FEW_RANGES);
        locks.forget(file(1));
        locks
            .lock(file(3), &of("another"), next, LockKind::Read)
            .unwrap();
    }
}
