//! Who has which file open, and what that denies to others.
//!
//! A pure table in memory: after a restart clients reclaim their opens, so nothing of it is stored.

use std::collections::HashMap;

use vfs::{Error, ObjectId, OpenOwner, Result, Share};

/// The most owners that can have one file open at once.
const MAX_OWNERS: usize = 16_384;

/// The opens of all files.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    files: HashMap<ObjectId, HashMap<OpenOwner, Share>>,
}

impl Shares {
    /// What the owner has by now.
    pub(crate) fn held(&self, id: ObjectId, owner: &OpenOwner) -> Option<Share> {
        self.files.get(&id)?.get(owner).copied()
    }

    /// Adds to what the owner has; [`Error::ShareDenied`] if another open stands against it, and
    /// [`Error::Delay`] when too many have the file open.
    pub(crate) fn open(&mut self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()> {
        let owners = self.files.entry(id).or_default();
        let in_the_way = owners
            .iter()
            .any(|(other, held)| other != owner && held.conflicts(share));
        if in_the_way {
            return Err(Error::ShareDenied);
        }
        let full = owners.len() >= MAX_OWNERS;
        match owners.get_mut(owner) {
            Some(held) => *held = held.union(share),
            None if full => return Err(Error::Delay),
            None => {
                owners.insert(owner.clone(), share);
            }
        }
        Ok(())
    }

    /// Leaves the owner with less than it had.
    pub(crate) fn downgrade(
        &mut self,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        let held = self
            .files
            .get_mut(&id)
            .and_then(|owners| owners.get_mut(owner));
        let held = held.ok_or(Error::Invalid("the file is not open"))?;
        if held.union(share) != *held {
            return Err(Error::Invalid("a downgrade cannot add to an open"));
        }
        *held = share;
        Ok(())
    }

    /// Ends an open; says whether it was the last of the file.
    pub(crate) fn close(&mut self, id: ObjectId, owner: &OpenOwner) -> bool {
        let Some(owners) = self.files.get_mut(&id) else {
            return false;
        };
        let closed = owners.remove(owner).is_some();
        let last = owners.is_empty();
        if last {
            self.files.remove(&id);
        }
        closed && last
    }

    pub(crate) fn is_open(&self, id: ObjectId) -> bool {
        self.files.contains_key(&id)
    }

    pub(crate) fn denies_read(&self, id: ObjectId) -> bool {
        self.any(id, |share| share.deny_read)
    }

    pub(crate) fn denies_write(&self, id: ObjectId) -> bool {
        self.any(id, |share| share.deny_write)
    }

    fn any(&self, id: ObjectId, rule: impl Fn(&Share) -> bool) -> bool {
        self.files
            .get(&id)
            .is_some_and(|owners| owners.values().any(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ObjectId = ObjectId::from_u64(5);

    fn owner(name: &str) -> OpenOwner {
        OpenOwner(name.as_bytes().into())
    }

    const READ: Share = Share {
        read: true,
        write: false,
        deny_read: false,
        deny_write: false,
    };
    const WRITE: Share = Share {
        read: false,
        write: true,
        deny_read: false,
        deny_write: false,
    };
    const READ_ALONE: Share = Share {
        deny_write: true,
        ..READ
    };

    #[test]
    fn what_one_denies_another_cannot_open() {
        let mut shares = Shares::default();
        shares.open(FILE, &owner("a"), READ_ALONE).unwrap();
        assert_eq!(
            shares.open(FILE, &owner("b"), WRITE),
            Err(Error::ShareDenied)
        );
        shares.open(FILE, &owner("b"), READ).unwrap();
        assert!(shares.denies_write(FILE) && !shares.denies_read(FILE));
    }

    #[test]
    fn an_owner_gets_the_union_and_does_not_stand_in_its_own_way() {
        let mut shares = Shares::default();
        shares.open(FILE, &owner("a"), READ_ALONE).unwrap();
        shares.open(FILE, &owner("a"), WRITE).unwrap();
        assert_eq!(
            shares.held(FILE, &owner("a")),
            Some(READ_ALONE.union(WRITE))
        );
        shares.downgrade(FILE, &owner("a"), READ).unwrap();
        shares.open(FILE, &owner("b"), WRITE).unwrap();
        assert!(shares.downgrade(FILE, &owner("a"), WRITE).is_err());
        assert!(shares.downgrade(FILE, &owner("c"), READ).is_err());
    }

    #[test]
    fn the_last_close_is_told_once() {
        let mut shares = Shares::default();
        shares.open(FILE, &owner("a"), READ).unwrap();
        shares.open(FILE, &owner("b"), READ).unwrap();
        assert!(!shares.close(FILE, &owner("a")));
        assert!(!shares.close(FILE, &owner("a")));
        assert!(shares.close(FILE, &owner("b")));
        assert!(!shares.is_open(FILE));
        assert!(!shares.close(FILE, &owner("b")));
    }

    #[test]
    fn a_refused_open_leaves_no_trace() {
        let mut shares = Shares::default();
        shares.open(FILE, &owner("a"), READ_ALONE).unwrap();
        let _refused = shares.open(FILE, &owner("b"), WRITE);
        assert!(shares.close(FILE, &owner("a")));
        assert!(!shares.is_open(FILE));
    }
}
