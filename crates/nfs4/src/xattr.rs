//! Extended attributes: GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR (RFC 8276,
//! section 8.4) as they travel.

use xdr::{Bytes, xdr_enum, xdr_struct};

use crate::{ChangeInfo4, Component4, Cookie4, Count4};

/// The longest value that is decoded, in bytes. Linux allows 64 KiB; more is
/// decoded so that a file system gets to refuse it.
pub const XATTR_VALUE_MAX: usize = 1024 * 1024;

/// The most names that are decoded from one reply.
pub const XATTR_NAMES_MAX: usize = 64 * 1024;

xdr_struct! {
    /// GETXATTR: reads an extended attribute of the current object.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetxattrArgs {
        /// Its name, without the "user." of Linux.
        pub name: Component4,
    }
}

xdr_struct! {
    /// The successful result of GETXATTR.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetxattrResOk {
        /// Its value.
        pub value: Bytes [<= XATTR_VALUE_MAX],
    }
}

xdr_enum! {
    /// Whether an extended attribute must exist, `setxattr_option4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SetxattrOption4 {
        /// It may exist or not.
        Either = 0,
        /// It must not exist.
        Create = 1,
        /// It must exist.
        Replace = 2,
    }
}

xdr_struct! {
    /// SETXATTR: sets an extended attribute of the current object.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SetxattrArgs {
        /// Whether it must exist.
        pub option: SetxattrOption4,
        /// Its name.
        pub key: Component4,
        /// Its new value.
        pub value: Bytes [<= XATTR_VALUE_MAX],
    }
}

xdr_struct! {
    /// The successful result of SETXATTR.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SetxattrResOk {
        /// How the object changed.
        pub info: ChangeInfo4,
    }
}

xdr_struct! {
    /// LISTXATTRS: lists extended attributes of the current object.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ListxattrsArgs {
        /// The place to continue; zero for the beginning.
        pub cookie: Cookie4,
        /// The maximum number of bytes of the whole [`ListxattrsResOk`].
        pub maxcount: Count4,
    }
}

xdr_struct! {
    /// The successful result of LISTXATTRS.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ListxattrsResOk {
        /// Where the names that follow begin.
        pub cookie: Cookie4,
        /// Names.
        pub names: Vec<Component4> [<= XATTR_NAMES_MAX],
        /// True when no names follow.
        pub eof: bool,
    }
}

xdr_struct! {
    /// REMOVEXATTR: removes an extended attribute of the current object.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RemovexattrArgs {
        /// Its name.
        pub name: Component4,
    }
}

xdr_struct! {
    /// The successful result of REMOVEXATTR.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RemovexattrResOk {
        /// How the object changed.
        pub info: ChangeInfo4,
    }
}
