//! The attributes of an object, and the attributes that a client may set.

use crate::{ChangeAttribute, ObjectId};
use serde::{Deserialize, Serialize};

/// The kind of an object, fixed at its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ObjectKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A local socket.
    Socket,
    /// A character device, with its numbers.
    CharacterDevice {
        /// Major device number.
        major: u32,
        /// Minor device number.
        minor: u32,
    },
    /// A block device, with its numbers.
    BlockDevice {
        /// Major device number.
        major: u32,
        /// Minor device number.
        minor: u32,
    },
}

/// A point in time, since 1970-01-01 00:00 UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// The attributes of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The object itself.
    pub id: ObjectId,
    /// Its kind, with device numbers for devices.
    pub kind: ObjectKind,
    /// Permission, set-id and sticky bits (the lower 12 bits of a POSIX mode).
    pub mode: u32,
    /// The number of names of the object; a directory counts as on other POSIX systems (2 + subdirectories).
    pub links: u32,
    /// Numeric user id of the owner.
    pub owner: u32,
    /// Numeric group id.
    pub group: u32,
    /// Length in bytes: of the data, of a symbolic link's target, or a directory's nominal size.
    pub size: u64,
    /// Bytes of storage in use.
    pub space_used: u64,
    /// Version; grows with every change of data or attributes.
    pub change: ChangeAttribute,
    /// Last read; about as exact as with `relatime` on Linux.
    pub accessed: Timestamp,
    /// Last change of data or entries.
    pub modified: Timestamp,
    /// Last change of anything.
    pub changed: Timestamp,
    /// Time of creation.
    pub created: Timestamp,
}

impl Attributes {
    /// Whether the object is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == ObjectKind::Directory
    }
}

/// A time that a client sets: a given time, or the server's current time (RFC 8881, section 5.9.2, `settime4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetTime {
    /// The time at which the server executes the operation.
    Now,
    /// The time given by the client.
    To(Timestamp),
}

/// Attributes to set; `None` leaves an attribute unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttributes {
    /// Lower 12 bits of a POSIX mode.
    pub mode: Option<u32>,
    /// Numeric user id.
    pub owner: Option<u32>,
    /// Numeric group id.
    pub group: Option<u32>,
    /// Length in bytes; only for regular files.
    pub size: Option<u64>,
    /// Time of last read.
    pub accessed: Option<SetTime>,
    /// Time of last change of data.
    pub modified: Option<SetTime>,
    /// Time of creation.
    pub created: Option<Timestamp>,
}

impl SetAttributes {
    /// Whether no attribute is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == SetAttributes::default()
    }
}
