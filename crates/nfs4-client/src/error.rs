//! Errors of a call, by the party that has to act: the network, the RPC layer of the
//! server, the server's decision, or an unusable reply.

use std::io;

use nfs4::{AttributeError, NfsStat4, Opnum};
use oncrpc::ReplyHeader;
use thiserror::Error;
use xdr::DecodeError;

/// Why a call has no result.
#[derive(Debug, Error)]
pub enum Error {
    /// No connection could be made, or it was lost and could not be replaced in time. Whether the
    /// request was executed is not known.
    #[error("the connection to the server failed: {0}")]
    Transport(#[from] io::Error),
    /// The RPC layer of the server refused the call, so that nothing was executed.
    #[error("the server refused the call: {0}")]
    Refused(ReplyHeader),
    /// An operation ended with this status; those before it in the request were executed.
    #[error("{} failed: {status}", name(*op))]
    Status {
        /// The number of the operation.
        op: u32,
        /// Its status, which is not success.
        status: NfsStat4,
    },
    /// The bytes of a reply are malformed.
    #[error("a reply is malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// The attributes in a reply cannot be used.
    #[error("attributes in a reply cannot be used: {0}")]
    Attributes(#[from] AttributeError),
    /// A reply is well formed but does not answer the request.
    #[error("a reply does not fit its request: the result of {0} is missing")]
    Unexpected(&'static str),
}

impl Error {
    /// The status of the failed operation, if one failed.
    pub fn status(&self) -> Option<NfsStat4> {
        match self {
            Error::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// A connection that is gone.
    pub(crate) fn lost() -> Self {
        let cause = "the server closed the connection";
        Error::Transport(io::Error::new(io::ErrorKind::ConnectionReset, cause))
    }

    /// No slot of the session can be used any more.
    pub(crate) fn used_up() -> Self {
        let cause = "the answers to requests on all slots of the session are lost";
        Error::Transport(io::Error::other(cause))
    }
}

/// An operation's name, for messages.
fn name(op: u32) -> String {
    match Opnum::try_from(op) {
        Ok(op) => op.to_string(),
        Err(_) => format!("operation {op}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_operation() {
        let status = NfsStat4::Exist;
        let known = Error::Status {
            op: Opnum::Open as u32,
            status,
        };
        let unknown = Error::Status { op: 4711, status };
        assert_eq!(known.to_string(), "OPEN failed: NFS4ERR_EXIST");
        assert_eq!(unknown.to_string(), "operation 4711 failed: NFS4ERR_EXIST");
    }
}
