//! ONC RPC version 2 (RFC 5531): record marking, message headers and
//! credentials, in both directions.
//!
//! The crate is pure: bytes in, values out. Sockets, timeouts, dispatch to
//! programs and any knowledge of NFS stay outside.

#![forbid(unsafe_code)]

mod call;
mod credentials;
mod error;
mod message;
mod record;
mod reply;

pub use call::CallHeader;
pub use credentials::{
    AuthFlavor, AuthSys, Credentials, Groups, MACHINE_NAME_MAX, OPAQUE_AUTH_MAX, OpaqueAuth,
};
pub use error::{CallError, MessageError};
pub use message::Message;
pub use record::{RECORD_MARK_SIZE, RecordError, RecordSplitter, RecordStart, frame};
pub use reply::{AcceptStat, AuthStat, RejectedReply, ReplyHeader, VersionRange};

/// The RPC protocol version this crate speaks (RFC 5531, section 9).
pub const RPC_VERSION: u32 = 2;
