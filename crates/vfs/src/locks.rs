//! Share reservations and byte-range locks. Their owners have names that mean the same at every replica.
//!
//! The tables are behind [`crate::FileSystem`], because with replicas the primary of a file decides
//! about its locks, no matter which server the client uses.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The owner of an open: the client's name, which is the same at every server, and the open-owner. Never a
/// clientid, which another server would not know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpenOwner(pub Arc<[u8]>);

impl OpenOwner {
    /// The bytes that hold the length of the client's name.
    const LENGTH_BYTES: usize = 4;

    /// Composes an owner from the client's name and the open-owner within that client, unambiguously.
    #[must_use]
    pub fn new(client: &[u8], owner: &[u8]) -> OpenOwner {
        let mut whole = Vec::with_capacity(Self::LENGTH_BYTES + client.len() + owner.len());
        whole.extend_from_slice(&(client.len() as u32).to_be_bytes());
        whole.extend_from_slice(client);
        whole.extend_from_slice(owner);
        OpenOwner(whole.into())
    }

    /// The client's name. `None` for an owner that [`OpenOwner::new`] did not compose.
    #[must_use]
    pub fn client(&self) -> Option<&[u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        rest.get(..u32::from_be_bytes(*length) as usize)
    }
}

/// The owner of a byte-range lock: the client's name and the lock-owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LockOwner {
    /// The client's name: its verifier and owner string (RFC 8881, section 2.4, `client_owner4`). The same at
    /// every server; it changes when the client has restarted and holds nothing any more.
    pub client: Arc<[u8]>,
    /// The lock-owner within that client.
    pub owner: Arc<[u8]>,
}

/// How an open owner uses a file, and what it denies to others (RFC 8881, section 9.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Share {
    /// The owner reads.
    pub read: bool,
    /// The owner writes.
    pub write: bool,
    /// No other owner may read.
    pub deny_read: bool,
    /// No other owner may write.
    pub deny_write: bool,
}

impl Share {
    /// Whether two owners cannot have these shares at the same time.
    #[must_use]
    pub fn conflicts(self, other: Share) -> bool {
        (self.deny_read && other.read)
            || (self.deny_write && other.write)
            || (other.deny_read && self.read)
            || (other.deny_write && self.write)
    }

    /// Everything that either share allows or denies.
    #[must_use]
    pub fn union(self, other: Share) -> Share {
        Share {
            read: self.read || other.read,
            write: self.write || other.write,
            deny_read: self.deny_read || other.deny_read,
            deny_write: self.deny_write || other.deny_write,
        }
    }
}

/// The kind of a byte-range lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LockKind {
    /// Shared with other readers.
    Read,
    /// Exclusive.
    Write,
}

/// The bytes from `start` to `last`, both included; `last` is `u64::MAX` for "to the end of file,
/// even if it grows". Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(u64, u64)", into = "(u64, u64)")]
pub struct ByteRange {
    start: u64,
    last: u64,
}

impl ByteRange {
    /// Every byte that a file can have.
    pub const EVERYTHING: ByteRange = ByteRange {
        start: 0,
        last: u64::MAX,
    };

    /// A range from an offset and a length in NFS form: `u64::MAX` as length means "to the
    /// end" (RFC 8881, section 18.10.3). Returns `None` for an empty range and one that wraps.
    #[must_use]
    pub fn from_offset_and_length(offset: u64, length: u64) -> Option<ByteRange> {
        match length {
            0 => None,
            u64::MAX => Some(ByteRange {
                start: offset,
                last: u64::MAX,
            }),
            _ => Some(ByteRange {
                start: offset,
                last: offset.checked_add(length - 1)?,
            }),
        }
    }

    /// A range from its first and last byte. Returns `None` when they are out of order.
    #[must_use]
    pub fn from_bounds(start: u64, last: u64) -> Option<ByteRange> {
        (start <= last).then_some(ByteRange { start, last })
    }

    /// The first byte.
    #[must_use]
    pub fn start(self) -> u64 {
        self.start
    }

    /// The last byte, `u64::MAX` for an open end.
    #[must_use]
    pub fn last(self) -> u64 {
        self.last
    }

    /// The length in NFS form, `u64::MAX` for an open end.
    #[must_use]
    pub fn length(self) -> u64 {
        if self.last == u64::MAX {
            u64::MAX
        } else {
            self.last - self.start + 1
        }
    }

    /// Whether the two ranges share a byte.
    #[must_use]
    pub fn overlaps(self, other: ByteRange) -> bool {
        self.start <= other.last && other.start <= self.last
    }
}

/// The lock that conflicts with a requested one (RFC 8881, section 18.10.2, `LOCK4denied`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockConflict {
    /// Its owner.
    pub owner: LockOwner,
    /// Its range.
    pub range: ByteRange,
    /// Its kind.
    pub kind: LockKind,
}

impl TryFrom<(u64, u64)> for ByteRange {
    type Error = &'static str;

    fn try_from((start, last): (u64, u64)) -> std::result::Result<ByteRange, &'static str> {
        ByteRange::from_bounds(start, last).ok_or("a byte range that ends before it starts")
    }
}

impl From<ByteRange> for (u64, u64) {
    fn from(range: ByteRange) -> (u64, u64) {
        (range.start, range.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_the_rfc_at_their_edges() {
        assert_eq!(ByteRange::from_offset_and_length(5, 0), None);
        assert_eq!(ByteRange::from_offset_and_length(u64::MAX, 2), None);
        let open = ByteRange::from_offset_and_length(7, u64::MAX).unwrap();
        assert_eq!(
            (open.start(), open.last(), open.length()),
            (7, u64::MAX, u64::MAX)
        );
        let one = ByteRange::from_offset_and_length(7, 1).unwrap();
        assert_eq!((one.last(), one.length()), (7, 1));
        assert!(open.overlaps(one));
        assert!(!one.overlaps(ByteRange::from_bounds(8, 9).unwrap()));
    }

    #[test]
    fn shares_conflict_where_one_denies_what_the_other_does() {
        let reader = Share {
            read: true,
            ..Share::default()
        };
        let private = Share {
            write: true,
            deny_read: true,
            ..Share::default()
        };
        assert!(reader.conflicts(private) && private.conflicts(reader));
        assert!(!reader.conflicts(reader));
    }
}
