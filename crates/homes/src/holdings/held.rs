//! What clients of one joined metadata server have opened and locked, as the home keeps account of it.
//!
//! A server that was started anew, or that meets a home which was, tells all of it again. What it has not told again when it says that it is
//! done is given back.
//!
//! What must never enter: the tree.

use std::collections::BTreeMap;

use vfs::{ByteRange, LockKind, LockOwner, ObjectId, OpenOwner, Share};

use super::Ranges;

/// Files that clients of one metadata server may have open, and as many that they may have locked, counted by owner.
const HELD_MAX: usize = 1 << 18;

/// By owner, as the home names it. `Some`: some of it may be of before, and only this was told again.
#[derive(Clone, Debug, Default)]
pub struct Held {
    opens: BTreeMap<(ObjectId, OpenOwner), Option<Share>>,
    locks: BTreeMap<(ObjectId, LockOwner), Option<Ranges>>,
}

/// What nobody holds any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Files that are to be closed.
    pub closed: Vec<(ObjectId, OpenOwner)>,
    /// Files that stay open, with what they stay open for.
    pub downgraded: Vec<(ObjectId, OpenOwner, Share)>,
    /// Ranges that are to be unlocked, whether or not they are locked.
    pub unlocked: Vec<(ObjectId, LockOwner, ByteRange)>,
}

impl Held {
    /// Whether nobody holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.opens.is_empty() && self.locks.is_empty()
    }

    /// All of it is about to be told again.
    pub fn begin_again(&mut self) {
        self.opens
            .values_mut()
            .for_each(|told| *told = Some(Share::default()));
        self.locks
            .values_mut()
            .for_each(|told| *told = Some(Ranges::default()));
    }

    /// All of it was told again that is still held.
    pub fn end_again(&mut self) -> Left {
        let mut left = Left::default();
        self.opens.retain(|(id, owner), told| match told.take() {
            None => true,
            Some(share) if share == Share::default() => {
                left.closed.push((*id, owner.clone()));
                false
            }
            Some(share) => {
                left.downgraded.push((*id, owner.clone(), share));
                true
            }
        });
        self.locks.retain(|(id, owner), told| {
            let Some(ranges) = told.take() else {
                return true;
            };
            let gaps = ranges.gaps().into_iter();
            left.unlocked
                .extend(gaps.map(|gap| (*id, owner.clone(), gap)));
            !ranges.is_empty()
        });
        left
    }

    /// Everything goes.
    pub fn take(&mut self) -> Left {
        self.begin_again();
        self.end_again()
    }

    /// An owner opens a file. Whether that is on account now, and was not before; `None` when there is no space.
    pub fn open(&mut self, id: ObjectId, owner: &OpenOwner, share: Share) -> Option<bool> {
        let open = (id, owner.clone());
        if let Some(told) = self.opens.get_mut(&open) {
            *told = told.map(|told| told.union(share));
            return Some(false);
        }
        if self.opens.len() >= HELD_MAX {
            return None;
        }
        self.opens.insert(open, None);
        Some(true)
    }

    /// An owner goes on with a smaller share.
    pub fn downgrade(&mut self, id: ObjectId, owner: &OpenOwner, share: Share) {
        if let Some(told) = self.opens.get_mut(&(id, owner.clone())) {
            *told = told.map(|_| share);
        }
    }

    /// An owner has closed a file.
    pub fn close(&mut self, id: ObjectId, owner: &OpenOwner) {
        self.opens.remove(&(id, owner.clone()));
    }

    /// Whether an owner has a file open.
    #[must_use]
    pub fn has_open(&self, id: ObjectId, owner: &OpenOwner) -> bool {
        self.opens.contains_key(&(id, owner.clone()))
    }

    /// As [`Held::open`], before it is known whether the owner gets the lock.
    pub fn locks(&mut self, id: ObjectId, owner: &LockOwner) -> Option<bool> {
        let lock = (id, owner.clone());
        if self.locks.contains_key(&lock) {
            return Some(false);
        }
        if self.locks.len() >= HELD_MAX {
            return None;
        }
        self.locks.insert(lock, None);
        Some(true)
    }

    /// The owner has the lock.
    pub fn locked(&mut self, id: ObjectId, owner: &LockOwner, range: ByteRange, kind: LockKind) {
        if let Some(Some(told)) = self.locks.get_mut(&(id, owner.clone())) {
            told.lock(range, kind);
        }
    }

    /// The owner gives a range back. `is_all`: nothing else is locked by it.
    pub fn unlocked(&mut self, id: ObjectId, owner: &LockOwner, range: ByteRange, is_all: bool) {
        let lock = (id, owner.clone());
        if is_all {
            self.locks.remove(&lock);
        } else if let Some(Some(told)) = self.locks.get_mut(&lock) {
            told.unlock(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_again_is_left() {
        let (file, other) = (ObjectId::from_u64(7), ObjectId::from_u64(8));
        let opener = OpenOwner::new(b"client", b"owner");
        let locker = LockOwner {
            client: b"client"[..].into(),
            owner: b"owner"[..].into(),
        };
        let reads = Share {
            read: true,
            ..Share::default()
        };
        let range = ByteRange::from_bounds(10, 19).unwrap();
        let mut held = Held::default();
        for id in [file, other] {
            assert_eq!(held.open(id, &opener, reads), Some(true));
            assert_eq!(held.locks(id, &locker), Some(true));
            held.locked(id, &locker, ByteRange::EVERYTHING, LockKind::Write);
        }
        assert_eq!(held.end_again(), Left::default());
        held.begin_again();
        assert_eq!(held.open(file, &opener, reads), Some(false));
        assert_eq!(held.locks(file, &locker), Some(false));
        held.locked(file, &locker, range, LockKind::Write);
        let left = held.end_again();
        assert_eq!(left.closed, [(other, opener.clone())]);
        assert_eq!(left.downgraded, [(file, opener.clone(), reads)]);
        let around = [(0, 9), (20, u64::MAX)];
        let around = around.map(|(start, last)| {
            let gap = ByteRange::from_bounds(start, last).unwrap();
            (file, locker.clone(), gap)
        });
        assert_eq!(left.unlocked[..2], around);
        let rest = (other, locker.clone(), ByteRange::EVERYTHING);
        assert_eq!(left.unlocked[2..], [rest]);
        assert!(held.has_open(file, &opener) && !held.has_open(other, &opener));
        assert_eq!(held.take().unlocked.len(), 1);
        assert!(held.is_empty());
    }
}
