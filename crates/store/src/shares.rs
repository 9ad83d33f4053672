//! Which owners have which files open, and what they deny to others.
//!
//! A pure table in memory: after a restart clients reclaim their opens. With
//! other replicas it also holds the denials of opens elsewhere, as the primary of the file reports them.

use std::collections::HashMap;

use vfs::{Error, ObjectId, OpenOwner, Result, Share};

/// The maximum number of owners that can have one file open at once.
const MAX_OWNERS: usize = 16_384;

/// One owner's open.
pub(crate) type Denial = (OpenOwner, Share);

/// The opens of one file.
#[derive(Clone, Debug, Default)]
struct Opens {
    here: HashMap<OpenOwner, Share>,
    /// Opens at other replicas that deny access, in the primary's last report.
    elsewhere: Vec<Denial>,
}

/// The opens of all files.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    files: HashMap<ObjectId, Opens>,
}

impl Shares {
    /// What the owner has open now.
    pub(crate) fn held(&self, id: ObjectId, owner: &OpenOwner) -> Option<Share> {
        self.files.get(&id)?.here.get(owner).copied()
    }

    /// Adds to the open of the owner; [`Error::ShareDenied`] if it conflicts with another open, and
    /// [`Error::NoSpace`] if the maximum number of owners has the file open.
    pub(crate) fn open(&mut self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()> {
        let opens = self.files.entry(id).or_default();
        let in_the_way = (opens.all()).any(|(other, held)| other != owner && held.conflicts(share));
        if in_the_way {
            return Err(Error::ShareDenied);
        }
        let full = opens.here.len() >= MAX_OWNERS;
        match opens.here.get_mut(owner) {
            Some(held) => *held = held.union(share),
            None if full => return Err(Error::NoSpace),
            None => {
                opens.here.insert(owner.clone(), share);
            }
        }
        Ok(())
    }

    /// Reduces the open of the owner.
    pub(crate) fn downgrade(
        &mut self,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        let held = self
            .files
            .get_mut(&id)
            .and_then(|opens| opens.here.get_mut(owner));
        let held = held.ok_or(Error::Invalid("the file is not open"))?;
        if held.union(share) != *held {
            return Err(Error::Invalid("a downgrade cannot add to an open"));
        }
        *held = share;
        Ok(())
    }

    /// Ends an open, wherever it was made; returns whether it was the last one of the file here.
    pub(crate) fn close(&mut self, id: ObjectId, owner: &OpenOwner) -> bool {
        let Some(opens) = self.files.get_mut(&id) else {
            return false;
        };
        opens.elsewhere.retain(|(other, _)| other != owner);
        let closed = opens.here.remove(owner).is_some();
        let last = opens.here.is_empty();
        if last && opens.elsewhere.is_empty() {
            self.files.remove(&id);
        }
        closed && last
    }

    pub(crate) fn is_open(&self, id: ObjectId) -> bool {
        self.files
            .get(&id)
            .is_some_and(|opens| !opens.here.is_empty())
    }

    pub(crate) fn denies_read(&self, id: ObjectId) -> bool {
        self.any(id, |share| share.deny_read)
    }

    pub(crate) fn denies_write(&self, id: ObjectId) -> bool {
        self.any(id, |share| share.deny_write)
    }

    /// Every open of a file that denies access to others, here and elsewhere, by owner.
    pub(crate) fn denials(&self, id: ObjectId) -> Vec<Denial> {
        let mut denials = Vec::new();
        if let Some(opens) = self.files.get(&id) {
            let elsewhere = (opens.elsewhere.iter())
                .filter(|(owner, _)| !opens.here.contains_key(owner))
                .map(|(owner, share)| (owner, share));
            denials.extend(
                opens
                    .here
                    .iter()
                    .chain(elsewhere)
                    .filter(|(_, share)| denies(**share)),
            );
        }
        let mut denials: Vec<Denial> = (denials.into_iter())
            .map(|(owner, share)| (owner.clone(), *share))
            .collect();
        denials.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        denials
    }

    /// Every owner that denies access to others, with the file.
    pub(crate) fn all_denials(&self) -> Vec<(ObjectId, OpenOwner)> {
        let files = self.files.keys();
        files
            .flat_map(|id| self.denials(*id).into_iter().map(|(owner, _)| (*id, owner)))
            .collect()
    }

    /// Replaces the denials of a file by those that its primary reports. Returns whether they
    /// have changed.
    pub(crate) fn follow(&mut self, id: ObjectId, denials: Vec<Denial>) -> bool {
        let before = self.denials(id);
        let opens = self.files.entry(id).or_default();
        opens.elsewhere = denials;
        if opens.here.is_empty() && opens.elsewhere.is_empty() {
            self.files.remove(&id);
        }
        before != self.denials(id)
    }

    /// Forgets a removed object, which is not open here.
    pub(crate) fn forget(&mut self, id: ObjectId) {
        self.files.remove(&id);
    }

    /// A table with the opens of one file only, to try a change.
    pub(crate) fn alone(&self, id: ObjectId) -> Shares {
        let opens = self.files.get(&id).map(|opens| (id, opens.clone()));
        Shares {
            files: opens.into_iter().collect(),
        }
    }

    /// Takes over the result of such a trial.
    pub(crate) fn replace(&mut self, id: ObjectId, mut tried: Shares) {
        match tried.files.remove(&id) {
            Some(opens) => drop(self.files.insert(id, opens)),
            None => drop(self.files.remove(&id)),
        }
    }

    /// The files that are open here or denied by opens elsewhere.
    pub(crate) fn files(&self) -> impl Iterator<Item = ObjectId> {
        self.files.keys().copied()
    }

    fn any(&self, id: ObjectId, rule: impl Fn(&Share) -> bool) -> bool {
        self.files
            .get(&id)
            .is_some_and(|opens| opens.all().any(|(_, share)| rule(share)))
    }
}

impl Opens {
    fn all(&self) -> impl Iterator<Item = (&OpenOwner, &Share)> {
        let elsewhere = self.elsewhere.iter().map(|(owner, share)| (owner, share));
        self.here.iter().chain(elsewhere)
    }
}

/// Whether a share denies anything to others.
pub(crate) fn denies(share: Share) -> bool {
    share.deny_read || share.deny_write
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

    #[test]
    fn what_is_denied_elsewhere_counts_until_the_primary_says_otherwise() {
        let mut shares = Shares::default();
        assert!(shares.follow(FILE, vec![(owner("far"), READ_ALONE)]));
        assert!(!shares.follow(FILE, vec![(owner("far"), READ_ALONE)]));
        assert!(!shares.is_open(FILE) && shares.denies_write(FILE));
        assert_eq!(
            shares.open(FILE, &owner("near"), WRITE),
            Err(Error::ShareDenied)
        );
        // The same owner: its client has moved to this replica.
        shares.open(FILE, &owner("far"), READ_ALONE).unwrap();
        assert_eq!(shares.denials(FILE), [(owner("far"), READ_ALONE)]);
        assert!(shares.close(FILE, &owner("far")));
        shares.open(FILE, &owner("near"), WRITE).unwrap();
        assert_eq!(shares.denials(FILE), []);
    }
}
