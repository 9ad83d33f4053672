//! Why bytes are not a usable call or reply, and the answer in that case.

use thiserror::Error;
use xdr::DecodeError;

use crate::RPC_VERSION;
use crate::reply::{AuthStat, RejectedReply, ReplyHeader, VersionRange};

/// Why a message that is a call cannot be passed on to a program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// The header is not XDR. Its sender is faulty; there is no sensible
    /// answer.
    #[error("the header of a call is malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// The caller speaks another version of RPC.
    #[error("call {xid} uses RPC version {version} instead of 2")]
    RpcVersion {
        /// The number of the call.
        xid: u32,
        /// The version it uses.
        version: u32,
    },
    /// The credentials do not have the form of their flavor.
    #[error("call {xid} has malformed credentials: {cause}")]
    BadCredentials {
        /// The number of the call.
        xid: u32,
        /// What is wrong with them.
        cause: DecodeError,
    },
}

impl CallError {
    /// The answer that RFC 5531, section 9, prescribes; none for a header in
    /// which even the number of the call cannot be trusted.
    pub fn reply(&self) -> Option<ReplyHeader> {
        match *self {
            CallError::Malformed(_) => None,
            CallError::RpcVersion { xid, .. } => Some(ReplyHeader::rejected(
                xid,
                RejectedReply::RpcMismatch(VersionRange {
                    low: RPC_VERSION,
                    high: RPC_VERSION,
                }),
            )),
            CallError::BadCredentials { xid, .. } => Some(ReplyHeader::rejected(
                xid,
                RejectedReply::AuthError(AuthStat::BadCredentials),
            )),
        }
    }
}

/// Why a record is not a usable RPC message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MessageError {
    /// It is a call that must be refused; [`CallError::reply`] gives the answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It is a reply, and malformed.
    #[error("the header of a reply is malformed: {0}")]
    Reply(DecodeError),
    /// It is too short for a call or a reply.
    #[error("a record is too short to be an RPC message: {0}")]
    Short(DecodeError),
    /// It is neither a call nor a reply, or not the kind that was expected here.
    #[error("an RPC message has the unexpected kind {0}")]
    UnexpectedKind(u32),
}
