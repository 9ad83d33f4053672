//! File handles and attributes of objects: PUTFH, GETFH, ACCESS, GETATTR,
//! SETATTR, VERIFY, NVERIFY, OPENATTR (RFC 8881, section 18) as they are sent.

use xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_struct};

use crate::{Bitmap4, Fattr4, NfsFh4, NfsStat4, Outcome, Stateid4};

/// Bits of ACCESS (RFC 8881, section 18.1.1; RFC 8276, section 8.5).
pub mod access {
    /// Read data or list a directory.
    pub const READ: u32 = 0x0001;
    /// Look up a name in a directory.
    pub const LOOKUP: u32 = 0x0002;
    /// Change existing data or directory entries.
    pub const MODIFY: u32 = 0x0004;
    /// Write new data or add directory entries.
    pub const EXTEND: u32 = 0x0008;
    /// Remove a directory entry.
    pub const DELETE: u32 = 0x0010;
    /// Execute a file.
    pub const EXECUTE: u32 = 0x0020;
    /// Read extended attributes.
    pub const XAREAD: u32 = 0x0040;
    /// Set and remove extended attributes.
    pub const XAWRITE: u32 = 0x0080;
    /// List extended attributes.
    pub const XALIST: u32 = 0x0100;
}

xdr_struct! {
    /// PUTFH: makes a handle the current one.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PutfhArgs {
        /// The handle.
        pub object: NfsFh4,
    }
}

xdr_struct! {
    /// The successful result of GETFH.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetfhResOk {
        /// The current handle.
        pub object: NfsFh4,
    }
}

xdr_struct! {
    /// ACCESS: asks for the caller's rights on the current object.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AccessArgs {
        /// The requested bits of [`access`].
        pub access: u32,
    }
}

xdr_struct! {
    /// The successful result of ACCESS.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AccessResOk {
        /// The requested bits that the server can judge.
        pub supported: u32,
        /// The granted bits among them.
        pub access: u32,
    }
}

xdr_struct! {
    /// GETATTR: asks for attributes of the current object.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct GetattrArgs {
        /// Which.
        pub attr_request: Bitmap4,
    }
}

xdr_struct! {
    /// The successful result of GETATTR.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetattrResOk {
        /// The supported bits among the requested ones.
        pub obj_attributes: Fattr4,
    }
}

xdr_struct! {
    /// SETATTR: sets attributes of the current object.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SetattrArgs {
        /// The open that allows a change of the size.
        pub stateid: Stateid4,
        /// The attributes and their values.
        pub obj_attributes: Fattr4,
    }
}

/// The result of SETATTR: even a failure contains the attributes that were set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetattrRes {
    /// How it ended.
    pub status: NfsStat4,
    /// The attributes that were set.
    pub attrsset: Bitmap4,
}

impl Outcome for SetattrRes {
    fn status(&self) -> NfsStat4 {
        self.status
    }

    fn encode_outcome(&self, w: &mut Writer) {
        self.status.encode(w);
        self.attrsset.encode(w);
    }

    fn decode_outcome(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            status: r.read()?,
            attrsset: Bitmap4::decode(r)?,
        })
    }
}

xdr_struct! {
    /// VERIFY: goes on only if the current object has these attributes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct VerifyArgs {
        /// The attributes and their values.
        pub obj_attributes: Fattr4,
    }
}

xdr_struct! {
    /// NVERIFY: goes on only if the current object has other attributes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct NverifyArgs {
        /// The attributes and their values.
        pub obj_attributes: Fattr4,
    }
}

xdr_struct! {
    /// OPENATTR: goes to the directory of named attributes of the current object.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OpenattrArgs {
        /// True when it may be created.
        pub createdir: bool,
    }
}
