//! Types that occur in attributes only.

use xdr::{Bytes, xdr_enum, xdr_newtype, xdr_struct, xdr_union};

use crate::{Component4, Mode4, Nfstime4, Utf8str};

/// The most components, servers or locations that are decoded from one list.
const LIST_MAX: usize = 256;

/// Bits of `fh_expire_type` (RFC 8881, section 4.2.3).
pub mod fh_expire {
    /// Handles stay valid as long as their object exists.
    pub const PERSISTENT: u32 = 0;
    /// Handles stay valid while the file is open.
    pub const NOEXPIRE_WITH_OPEN: u32 = 1;
    /// Handles may expire at any time.
    pub const VOLATILE_ANY: u32 = 2;
    /// Handles expire when the file system migrates.
    pub const VOL_MIGRATION: u32 = 4;
    /// Handles expire when the object is renamed.
    pub const VOL_RENAME: u32 = 8;
}

/// Bits of `aclsupport` (RFC 8881, section 6.2.1.2).
pub mod aclsupport {
    /// Entries that allow.
    pub const ALLOW: u32 = 1;
    /// Entries that deny.
    pub const DENY: u32 = 2;
    /// Entries that audit.
    pub const AUDIT: u32 = 4;
    /// Entries that alarm.
    pub const ALARM: u32 = 8;
}

xdr_union! {
    /// The new value of a time, `settime4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Settime4 {
        /// The server's idea of now.
        0 => ServerTime,
        /// This time.
        1 => ClientTime(Nfstime4),
    }
}

xdr_struct! {
    /// Permission bits of a new object before and after the umask, `mode_umask4`
    /// (RFC 8275, section 4).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ModeUmask4 {
        /// The bits that the application asked for.
        pub mode: Mode4,
        /// The bits that its umask takes away unless the directory has a default ACL.
        pub umask: Mode4,
    }
}

xdr_enum! {
    /// How the attribute `change` moves, `change_attr_type4` (RFC 7862,
    /// section 12.2.3).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ChangeAttrType4 {
        /// It grows with every change.
        MonotonicIncr = 0,
        /// It grows by one with every change.
        VersionCounter = 1,
        /// The same, except for writes through layouts.
        VersionCounterNopnfs = 2,
        /// It is the time of the last change of attributes.
        TimeMetadata = 3,
        /// Nothing is promised.
        Undefined = 4,
    }
}

xdr_newtype! {
    /// Kinds of layouts, of [`crate::layout_type`], from the best on.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct LayoutTypes4(pub Vec<u32> [<= LIST_MAX]);
}

xdr_newtype! {
    /// A path as a list of names, `pathname4`. Empty for the root.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Pathname4(pub Vec<Component4> [<= LIST_MAX]);
}

xdr_struct! {
    /// Where a file system is served, `fs_locations4`.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct FsLocations4 {
        /// Where it lies on this server.
        pub fs_root: Pathname4,
        /// Where it lies on others.
        pub locations: Vec<FsLocation4> [<= LIST_MAX],
    }
}

xdr_struct! {
    /// One place where a file system is served, `fs_location4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FsLocation4 {
        /// Names or addresses of the servers.
        pub server: Vec<Utf8str> [<= LIST_MAX],
        /// Where it lies on these.
        pub rootpath: Pathname4,
    }
}

xdr_struct! {
    /// Where a file system is served, in detail, `fs_locations_info4` (RFC 8881, section 11.17).
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct FsLocationsInfo4 {
        /// Bits that concern all of it, `FSLI4IF_*`.
        pub flags: u32,
        /// For how many seconds it need not be asked for again, at most.
        pub valid_for: i32,
        /// Where it lies on this server.
        pub fs_root: Pathname4,
        /// Where it lies, in the order of preference of the server that answers.
        pub items: Vec<FsLocationsItem4> [<= LIST_MAX],
    }
}

xdr_struct! {
    /// Servers with one path, `fs_locations_item4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FsLocationsItem4 {
        /// The servers.
        pub entries: Vec<FsLocationsServer4> [<= LIST_MAX],
        /// Where the file system lies on these.
        pub rootpath: Pathname4,
    }
}

xdr_struct! {
    /// One server, `fs_locations_server4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FsLocationsServer4 {
        /// How far behind the best copy it is, in seconds; -1 if unknown.
        pub currency: i32,
        /// Flags, classes, ranks and orders, one byte each (see [`fsli`]).
        pub info: Bytes [<= LIST_MAX],
        /// Its name or address.
        pub server: Utf8str,
    }
}

/// Places and flags in [`FsLocationsServer4::info`] (RFC 8881, section 11.17.1).
pub mod fsli {
    /// How many bytes there are.
    pub const BYTES: usize = 12;
    /// Place of the flags about the file system.
    pub const GENERAL_FLAGS: usize = 0;
    /// Place of the class of servers with the same filehandles; 0 is a separate class.
    pub const CLASS_HANDLE: usize = 3;
    /// Place of the class of servers with the same fileids.
    pub const CLASS_FILEID: usize = 4;
    /// Place of the rank for reading: smaller ranks are preferred.
    pub const READ_RANK: usize = 8;
    /// Place of the rank for writing.
    pub const WRITE_RANK: usize = 9;
    /// General flag: the copy can be written.
    pub const WRITABLE: u8 = 0x01;
}
