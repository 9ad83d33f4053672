//! The opens and locks of the clients of one joined metadata server, as the home records them.
//!
//! After a restart of that server or of the home, the server tells the home all of them again. When it says that it is done, the home gives back
//! those that it has not told again.
//!
//! What must never enter: the tree.

use std::collections::BTreeMap;

use vfs::{ByteRange, LockKind, LockOwner, ObjectId, OpenOwner, Share};

use super::Ranges;

/// The maximum number of open files, and of locked files, of the clients of one metadata server, counted by owner.
const HELD_MAX: usize = 1 << 18;

/// By owner, as the home names it. `Some`: earlier records may exist, and only this was told again.
#[derive(Clone, Debug, Default)]
pub struct Held {
    opens: BTreeMap<(ObjectId, OpenOwner), Option<Share>>,
    locks: BTreeMap<(ObjectId, LockOwner), Option<Ranges>>,
}

/// Opens and locks that no client holds any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Files that are to be closed.
    pub closed: Vec<(ObjectId, OpenOwner)>,
    /// Files that stay open, with the remaining share.
    pub downgraded: Vec<(ObjectId, OpenOwner, Share)>,
    /// Ranges to unlock, whether or not they are locked.
    pub unlocked: Vec<(ObjectId, LockOwner, ByteRange)>,
}

impl Held {
    /// Whether there are no opens and no locks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.opens.is_empty() && self.locks.is_empty()
    }

    /// The server is about to tell all of them again.
    pub fn begin_again(&mut self) {
        self.opens
            .values_mut()
            .for_each(|told| *told = Some(Share::default()));
        self.locks
            .values_mut()
            .for_each(|told| *told = Some(Ranges::default()));
    }

    /// The server has told again all that is still held. Returns the rest.
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

    /// Gives up everything.
    pub fn take(&mut self) -> Left {
        self.begin_again();
        self.end_again()
    }

    /// An owner opens a file. Whether this is a new record; `None` when there is no space.
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

    /// An owner reduces its share.
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

    /// As [`Held::open`], called before the owner has the lock.
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

    /// The owner unlocks a range. `is_all`: it has no other locked range.
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
