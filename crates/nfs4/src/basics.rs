//! Types that many operations share: handles, names, identifiers, times.

use std::fmt;

use xdr::{Bytes, xdr_enum, xdr_newtype, xdr_struct};

/// The longest file handle, in bytes: `NFS4_FHSIZE`.
pub const FHSIZE: usize = 128;
/// The longest owner, client or server identifier, in bytes: `NFS4_OPAQUE_LIMIT`.
pub const OPAQUE_LIMIT: usize = 1024;
/// The longest file name that is decoded, in bytes. Far above what file systems
/// allow, so that these can refuse a long name with the proper status.
pub const COMPONENT_MAX: usize = 4096;
/// The longest text that is decoded, in bytes: tags, users, host names.
pub const TEXT_MAX: usize = 4096;

/// An offset in bytes, `offset4`.
pub type Offset4 = u64;
/// A length in bytes, `length4`. All ones means "to the end of the file" in locks.
pub type Length4 = u64;
/// A count of bytes, `count4`.
pub type Count4 = u32;
/// A client's identity for as long as its lease lives, `clientid4`.
pub type Clientid4 = u64;
/// A position in a directory, `nfs_cookie4`.
pub type Cookie4 = u64;
/// A sequence number of a slot or client, `sequenceid4`.
pub type Sequenceid4 = u32;
/// A slot of a session, `slotid4`.
pub type Slotid4 = u32;
/// The number of a change, `changeid4`.
pub type Changeid4 = u64;
/// Permission bits, `mode4` (RFC 8881, section 6.2.4).
pub type Mode4 = u32;

xdr_newtype! {
    /// A file handle: names an object as long as the server keeps it valid.
    #[derive(Clone, PartialEq, Eq, Hash, Default)]
    pub struct NfsFh4(pub Bytes [<= FHSIZE]);
}

xdr_newtype! {
    /// One name in a directory, as raw bytes. Clients mostly send UTF-8, but
    /// RFC 8881, section 14, allows servers to accept any bytes.
    #[derive(Clone, PartialEq, Eq, Hash, Default)]
    pub struct Component4(pub Bytes [<= COMPONENT_MAX]);
}

xdr_newtype! {
    /// Text that should be UTF-8 but is not checked here: users, host names.
    #[derive(Clone, PartialEq, Eq, Hash, Default)]
    pub struct Utf8str(pub Bytes [<= TEXT_MAX]);
}

xdr_newtype! {
    /// Eight bytes that change when something was lost: `verifier4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Verifier4(pub [u8; 8]);
}

xdr_newtype! {
    /// The name of a session.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct SessionId4(pub [u8; 16]);
}

impl Component4 {
    /// The name as text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl Utf8str {
    /// The text, if it is valid.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl From<&str> for Component4 {
    fn from(name: &str) -> Self {
        Self(Bytes::copy_from_slice(name.as_bytes()))
    }
}

impl From<&str> for Utf8str {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl fmt::Debug for NfsFh4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NfsFh4({})", Hex(&self.0))
    }
}

impl fmt::Debug for SessionId4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId4({})", Hex(&self.0))
    }
}

impl fmt::Debug for Component4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Component4({:?})", self.0)
    }
}

impl fmt::Debug for Utf8str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Utf8str({:?})", self.0)
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

xdr_struct! {
    /// Names one piece of open, lock or delegation state, and its version
    /// (RFC 8881, section 8.2).
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Stateid4 {
        /// Version of the state; zero means "the newest" when a client sends it.
        pub seqid: u32,
        /// The state.
        pub other: [u8; 12],
    }
}

/// The special stateids of RFC 8881, section 8.2.3.
impl Stateid4 {
    /// No state: the access is subject to all share reservations.
    pub const ANONYMOUS: Self = Self {
        seqid: 0,
        other: [0; 12],
    };
    /// No state, and READ may bypass locks at the server.
    pub const READ_BYPASS: Self = Self {
        seqid: u32::MAX,
        other: [0xff; 12],
    };
    /// The stateid that an earlier operation of the same COMPOUND left behind.
    pub const CURRENT: Self = Self {
        seqid: 1,
        other: [0; 12],
    };
    /// Names nothing, ever.
    pub const INVALID: Self = Self {
        seqid: u32::MAX,
        other: [0; 12],
    };
}

impl fmt::Debug for Stateid4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stateid4({}:{})", self.seqid, Hex(&self.other))
    }
}

xdr_struct! {
    /// A point in time, counted from 1970-01-01T00:00:00Z (RFC 8881, section 3.3.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
    pub struct Nfstime4 {
        /// Whole seconds, negative before 1970.
        pub seconds: i64,
        /// Nanoseconds within the second; values of 1,000,000,000 and above are
        /// invalid and must be checked for.
        pub nseconds: u32,
    }
}

xdr_struct! {
    /// The change attribute of a directory before and after an operation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ChangeInfo4 {
        /// True when nothing else can have changed the directory in between.
        pub atomic: bool,
        /// The number before the operation.
        pub before: Changeid4,
        /// The number after the operation.
        pub after: Changeid4,
    }
}

xdr_struct! {
    /// Names a file system within a server.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Fsid4 {
        /// The upper half of the name.
        pub major: u64,
        /// The lower half of the name.
        pub minor: u64,
    }
}

xdr_struct! {
    /// The numbers of a device node.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Specdata4 {
        /// The major number.
        pub specdata1: u32,
        /// The minor number.
        pub specdata2: u32,
    }
}

xdr_struct! {
    /// Attributes in their encoded form; `attributes` looks inside.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Fattr4 {
        /// The attributes that are present.
        pub attrmask: crate::Bitmap4,
        /// Their values, one after another in ascending order.
        pub attr_vals: Bytes [<= ATTRLIST_MAX],
    }
}

/// The longest list of encoded attributes that is decoded, in bytes.
pub const ATTRLIST_MAX: usize = 256 * 1024;

xdr_struct! {
    /// The owner of an open or a lock: a name that a client chose.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    pub struct StateOwner4 {
        /// The client. In NFSv4.1 the session identifies it; the field is ignored
        /// (RFC 8881, section 18.16.3).
        pub clientid: Clientid4,
        /// The name within the client.
        pub owner: Bytes [<= OPAQUE_LIMIT],
    }
}

xdr_enum! {
    /// The type of an object, `nfs_ftype4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum NfsFtype4 {
        /// A regular file.
        Reg = 1,
        /// A directory.
        Dir = 2,
        /// A block device.
        Blk = 3,
        /// A character device.
        Chr = 4,
        /// A symbolic link.
        Lnk = 5,
        /// A socket.
        Sock = 6,
        /// A named pipe.
        Fifo = 7,
        /// A directory of named attributes.
        AttrDir = 8,
        /// A named attribute.
        NamedAttr = 9,
    }
}
