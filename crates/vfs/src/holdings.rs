//! Locks and denials that clients of any server hold in a tree.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{LockOwner, ObjectId, OpenOwner};

/// Byte-range locks, and opens that deny access to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// The owners of locks, once for each owner and file.
    pub locks: Vec<(ObjectId, LockOwner)>,
    /// The owners of opens that deny access to others.
    pub denials: Vec<(ObjectId, OpenOwner)>,
}

impl Holdings {
    /// The names of the clients that hold something.
    #[must_use]
    pub fn clients(&self) -> Vec<Arc<[u8]>> {
        let of_locks = self.locks.iter().map(|(_, owner)| &owner.client[..]);
        let of_denials = (self.denials.iter()).filter_map(|(_, owner)| owner.client());
        let names: BTreeSet<&[u8]> = of_locks.chain(of_denials).collect();
        names.into_iter().map(Arc::from).collect()
    }

    /// Whether there are no holdings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty() && self.denials.is_empty()
    }

    /// The part that these clients hold.
    #[must_use]
    pub fn of(&self, clients: &[Arc<[u8]>]) -> Holdings {
        let meant = |name: &[u8]| clients.iter().any(|client| **client == *name);
        let locks = (self.locks.iter()).filter(|(_, owner)| meant(&owner.client));
        let denials = (self.denials.iter()).filter(|(_, owner)| owner.client().is_some_and(meant));
        Holdings {
            locks: locks.cloned().collect(),
            denials: denials.cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_named_once_and_each_has_its_own() {
        let file = ObjectId::from_u64;
        let lock = |client: &str, owner: &str| LockOwner {
            client: client.as_bytes().into(),
            owner: owner.as_bytes().into(),
        };
        let all = Holdings {
            locks: vec![
                (file(1), lock("a", "x")),
                (file(1), lock("b", "x")),
                (file(2), lock("a", "y")),
            ],
            denials: vec![
                (file(3), OpenOwner::new(b"b", b"o")),
                (file(3), OpenOwner::new(b"c", b"o")),
            ],
        };
        let names: Vec<Arc<[u8]>> = [b"a", b"b", b"c"].map(|name| name[..].into()).to_vec();
        assert_eq!(all.clients(), names);
        let of_b = all.of(&names[1..2]);
        assert_eq!(of_b.locks, [all.locks[1].clone()]);
        assert_eq!(of_b.denials, [all.denials[0].clone()]);
        assert_eq!(OpenOwner(b"short"[..].into()).client(), None);
    }
}
