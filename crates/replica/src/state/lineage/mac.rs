//! A replica's statements about its own past, with a message authentication code that no other replica can forge.
//!
//! Others keep the statements, and show them later to other replicas or to their author. Only the author can check the code. Its key is derived from
//! the private key with which the replica proves its identity. So it is the same in every copy of the data directory that can connect, however old: a
//! restored copy still recognises its own statements.
//!
//! What must never enter: what follows from a proven statement.

use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

/// The purpose of the derived key (BLAKE3, `derive_key`).
const PURPOSE: &str = "meridian 2026 what a replica says of its own past";

/// A code over a statement of a replica about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mac([u8; 32]);

/// A number that a replica stated about itself: a mark, or how far its stream of updates had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attested {
    pub(crate) number: u64,
    pub(crate) mac: Mac,
}

/// The key of one replica. It is never shown.
pub(crate) struct Key([u8; 32]);

impl Key {
    /// The key of the replica with this identity.
    pub(crate) fn of(identity: &peer::Identity) -> Key {
        Key(identity.secret_for(PURPOSE))
    }

    #[cfg(test)]
    pub(crate) fn of_nobody() -> Key {
        Key([7; 32])
    }

    /// Attests a mark of one start.
    pub(super) fn mark(&self, slot: ReplicaSlot, start: (u64, u64), mark: u64) -> Attested {
        let (incarnation, nonce) = start;
        self.attest(b'm', slot, [incarnation, nonce, mark])
    }

    /// Attests that updates were made up to a position.
    pub(super) fn updates(&self, slot: ReplicaSlot, through: u64) -> Attested {
        self.attest(b'u', slot, [0, 0, through])
    }

    fn attest(&self, what: u8, slot: ReplicaSlot, numbers: [u64; 3]) -> Attested {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&[what]);
        hasher.update(&slot.0.to_be_bytes());
        for number in numbers {
            hasher.update(&number.to_be_bytes());
        }
        Attested {
            number: numbers[2],
            mac: Mac(*hasher.finalize().as_bytes()),
        }
    }
}

impl Mac {
    /// Whether the two are equal, in a time that does not reveal where they differ.
    pub(super) fn fits(&self, expected: Mac) -> bool {
        blake3::Hash::from_bytes(self.0) == blake3::Hash::from_bytes(expected.0)
    }

    #[cfg(test)]
    pub(crate) fn invented() -> Mac {
        Mac([0; 32])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_fits_what_it_was_made_for_alone() {
        let (key, slot) = (Key::of_nobody(), ReplicaSlot(3));
        let mac = key.mark(slot, (5, 50), 7).mac;
        assert!(mac.fits(key.mark(slot, (5, 50), 7).mac));
        for (other, start, mark) in [
            (ReplicaSlot(2), (5, 50), 7),
            (slot, (6, 50), 7),
            (slot, (5, 51), 7),
            (slot, (5, 50), 8),
        ] {
            assert!(!mac.fits(key.mark(other, start, mark).mac));
        }
        assert!(!mac.fits(key.updates(slot, 7).mac));
        assert!(!mac.fits(Key([8; 32]).mark(slot, (5, 50), 7).mac));
    }
}
