//! Names that every replica of a tree must agree on: trees, objects, and versions of objects.
//!
//! Clients keep their cached inodes when they move to another replica, so nothing here may depend
//! on the machine that answers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a replica in its replication set. Never used again for another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplicaSlot(pub u16);

/// A file, directory, symbolic link or special file of one tree; NFS shows it as the fileid.
///
/// The upper 16 bits are the [`ReplicaSlot`] of the replica that created the object, the lower 48 a
/// counter of that replica that survives crashes. So identifiers are allocated without coordination
/// and never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId(u64);

impl ObjectId {
    /// The root directory, the same in every tree. It belongs to slot 0, which no replica gets.
    pub const ROOT: ObjectId = ObjectId(1);

    const COUNTER_BITS: u32 = 48;

    /// The largest counter that fits into an identifier.
    pub const MAX_COUNTER: u64 = (1 << Self::COUNTER_BITS) - 1;

    /// Composes an identifier. Returns `None` when `counter` exceeds [`ObjectId::MAX_COUNTER`].
    #[must_use]
    pub const fn new(slot: ReplicaSlot, counter: u64) -> Option<ObjectId> {
        if counter > Self::MAX_COUNTER {
            return None;
        }
        Some(ObjectId(((slot.0 as u64) << Self::COUNTER_BITS) | counter))
    }

    /// The replica that created the object; slot 0 for objects that every tree has.
    #[must_use]
    pub const fn slot(self) -> ReplicaSlot {
        // The upper 16 bits, so no bits are lost.
        ReplicaSlot((self.0 >> Self::COUNTER_BITS) as u16)
    }

    /// Takes an identifier from its stored or transmitted form.
    #[must_use]
    pub const fn from_u64(raw: u64) -> ObjectId {
        ObjectId(raw)
    }

    /// The form that is stored, transmitted, and shown to clients as the fileid.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:x}.{:x}",
            self.0 >> Self::COUNTER_BITS,
            self.0 & Self::MAX_COUNTER
        )
    }
}

/// Identifies a tree to clients (RFC 8881, section 5.8.1.9); generated at random when a tree is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FsId {
    /// First half of the identifier.
    pub major: u64,
    /// Second half of the identifier.
    pub minor: u64,
}

/// The version of an object as clients see it (RFC 8881, section 5.8.1.4). It only grows.
///
/// The upper 16 bits count takeovers by another replica, the lower 48 the changes, so that a version
/// made after a takeover is newer than any that the previous primary may have shown to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChangeAttribute(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_ids_carry_slot_and_counter() {
        let id = ObjectId::new(ReplicaSlot(3), 0x1_0000).unwrap();
        assert_eq!(id.as_u64(), 0x0003_0000_0001_0000);
        assert_eq!(id.to_string(), "3.10000");
        assert_eq!(ObjectId::from_u64(id.as_u64()), id);
    }

    #[test]
    fn a_counter_that_would_spill_into_the_slot_is_refused() {
        assert!(ObjectId::new(ReplicaSlot(1), ObjectId::MAX_COUNTER).is_some());
        assert!(ObjectId::new(ReplicaSlot(1), ObjectId::MAX_COUNTER + 1).is_none());
    }
}
