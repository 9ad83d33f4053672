//! Wire types of NFSv4.1 (RFC 8881, RFC 5662) with the parts of 4.2 (RFC 7862,
//! RFC 7863) and of extended attributes (RFC 8276) that are used here.
//!
//! Names keep the spelling of the RFCs in Rust case, without the prefixes that
//! C needs. There is no behaviour: servers and clients decide the meaning of an operation,
//! the state that it needs, and its status. File systems and
//! sockets are unknown here.
//!
//! Limits in this crate bound memory and are generous, so that a server can
//! answer an over-long name with NFS4ERR_NAMETOOLONG instead of NFS4ERR_BADXDR.

#![forbid(unsafe_code)]

pub mod attributes;
mod basics;
mod bitmap;
pub mod callback;
mod compound;
mod delegation;
mod directory;
mod file;
mod file_layout;
mod io;
mod layout;
mod lock;
mod open;
mod operation;
mod opnum;
mod outcome;
mod security;
mod session;
mod stateid;
mod status;
mod xattr;

pub use attributes::{Attr, AttributeError, Attributes4};
pub use basics::*;
pub use bitmap::Bitmap4;
pub use compound::{
    CompoundArgs, CompoundCall, CompoundReply, CompoundRes, DoesNotFit, Operations,
};
pub use delegation::*;
pub use directory::*;
pub use file::*;
pub use file_layout::*;
pub use io::*;
pub use layout::*;
pub use lock::*;
pub use open::*;
pub use operation::{ArgOp4, OpArgs, OpError, OpResult, ResOp4};
pub use opnum::Opnum;
pub use outcome::Outcome;
pub use security::*;
pub use session::*;
pub use stateid::*;
pub use status::NfsStat4;
pub use xattr::*;

/// The RPC program number of NFS (RFC 8881, section 18; RFC 5662).
pub const PROGRAM: u32 = 100_003;
/// The version of that program that is NFSv4.
pub const VERSION: u32 = 4;
/// The procedure that does nothing.
pub const PROC_NULL: u32 = 0;
/// The procedure that carries operations.
pub const PROC_COMPOUND: u32 = 1;
