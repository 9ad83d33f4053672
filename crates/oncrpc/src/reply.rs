//! The header of a reply (RFC 5531, section 9), up to where the results of the
//! procedure begin.

use std::fmt;

use xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_enum, xdr_struct, xdr_union};

use crate::credentials::OpaqueAuth;

/// The kind of the message, `msg_type`.
pub(crate) const REPLY: u32 = 1;

const MSG_ACCEPTED: u32 = 0;
const MSG_DENIED: u32 = 1;

xdr_struct! {
    /// The versions that the answering side supports.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct VersionRange {
        /// The lowest supported version.
        pub low: u32,
        /// The highest supported version.
        pub high: u32,
    }
}

xdr_union! {
    /// The result of a call that the RPC layer accepted, `accept_stat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AcceptStat {
        /// SUCCESS: results of the procedure follow.
        0 => Success,
        /// PROG_UNAVAIL: the program is not served here.
        1 => ProgramUnavailable,
        /// PROG_MISMATCH: the version of the program is not served here.
        2 => ProgramMismatch(VersionRange),
        /// PROC_UNAVAIL: the version has no such procedure.
        3 => ProcedureUnavailable,
        /// GARBAGE_ARGS: the arguments cannot be decoded.
        4 => GarbageArguments,
        /// SYSTEM_ERR: the answering side has a problem, for example it is out of memory.
        5 => SystemError,
    }
}

xdr_enum! {
    /// Why a call failed authentication, `auth_stat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub named enum AuthStat {
        /// AUTH_OK: it did not fail.
        Ok = 0,
        /// AUTH_BADCRED: the credentials are malformed.
        BadCredentials = 1,
        /// AUTH_REJECTEDCRED: the client must begin a new session.
        RejectedCredentials = 2,
        /// AUTH_BADVERF: the verifier is malformed.
        BadVerifier = 3,
        /// AUTH_REJECTEDVERF: the verifier has expired or was replayed.
        RejectedVerifier = 4,
        /// AUTH_TOOWEAK: a stronger flavor is demanded.
        TooWeak = 5,
        /// AUTH_INVALIDRESP: the verifier of the response is bogus.
        InvalidResponse = 6,
        /// AUTH_FAILED: for some unknown reason.
        Failed = 7,
        /// AUTH_KERB_GENERIC: a Kerberos error.
        KerberosGeneric = 8,
        /// AUTH_TIMEEXPIRE: the credential has expired.
        TimeExpired = 9,
        /// AUTH_TKT_FILE: trouble with the file of tickets.
        TicketFile = 10,
        /// AUTH_DECODE: the authenticator cannot be decoded.
        Decode = 11,
        /// AUTH_NET_ADDR: the ticket carries another network address.
        NetworkAddress = 12,
        /// RPCSEC_GSS_CREDPROBLEM: no credentials for this user (RFC 2203).
        GssCredentialProblem = 13,
        /// RPCSEC_GSS_CTXPROBLEM: trouble with the security context (RFC 2203).
        GssContextProblem = 14,
    }
}

xdr_union! {
    /// Why a call was denied by the RPC layer, `reject_stat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum RejectedReply {
        /// RPC_MISMATCH: another version of RPC is spoken here.
        0 => RpcMismatch(VersionRange),
        /// AUTH_ERROR: the caller could not be authenticated.
        1 => AuthError(AuthStat),
    }
}

/// The answer of the RPC layer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyHeader {
    /// The call was accepted, which does not mean that it succeeded.
    Accepted {
        /// The number of the call.
        xid: u32,
        /// Proves the identity of the answering side.
        verifier: OpaqueAuth,
        /// The result of the call.
        status: AcceptStat,
    },
    /// The call was denied.
    Denied {
        /// The number of the call.
        xid: u32,
        /// Why.
        cause: RejectedReply,
    },
}

impl ReplyHeader {
    /// The header in front of the results of a procedure.
    pub const fn success(xid: u32) -> Self {
        Self::accepted(xid, AcceptStat::Success)
    }

    /// An accepted call with an AUTH_NONE verifier, for flavors without
    /// verifiers.
    pub const fn accepted(xid: u32, status: AcceptStat) -> Self {
        Self::Accepted {
            xid,
            verifier: OpaqueAuth::none(),
            status,
        }
    }

    /// A denied call.
    pub const fn rejected(xid: u32, cause: RejectedReply) -> Self {
        Self::Denied { xid, cause }
    }

    /// The number of the call that is answered.
    pub const fn xid(&self) -> u32 {
        match self {
            Self::Accepted { xid, .. } | Self::Denied { xid, .. } => *xid,
        }
    }

    /// True when the results of the procedure follow.
    pub fn is_success(&self) -> bool {
        matches!(
            self,
            Self::Accepted {
                status: AcceptStat::Success,
                ..
            }
        )
    }

    /// Consumes what follows the number and the kind of the message.
    pub(crate) fn parse_body(xid: u32, r: &mut Reader) -> Result<Self, DecodeError> {
        match r.u32()? {
            MSG_ACCEPTED => Ok(Self::Accepted {
                xid,
                verifier: r.read()?,
                status: AcceptStat::decode(r)?,
            }),
            MSG_DENIED => Ok(Self::Denied {
                xid,
                cause: r.read()?,
            }),
            value => Err(DecodeError::UnknownValue {
                kind: "reply_stat",
                value,
            }),
        }
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "versions {} to {} are served", self.low, self.high)
    }
}

impl fmt::Display for AcceptStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => write!(f, "SUCCESS"),
            Self::ProgramUnavailable => write!(f, "PROG_UNAVAIL"),
            Self::ProgramMismatch(served) => write!(f, "PROG_MISMATCH, {served}"),
            Self::ProcedureUnavailable => write!(f, "PROC_UNAVAIL"),
            Self::GarbageArguments => write!(f, "GARBAGE_ARGS"),
            Self::SystemError => write!(f, "SYSTEM_ERR"),
        }
    }
}

impl fmt::Display for RejectedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RpcMismatch(served) => write!(f, "RPC_MISMATCH, {served}"),
            Self::AuthError(why) => write!(f, "AUTH_ERROR, {why}"),
        }
    }
}

/// The result of the call, with the names of RFC 5531.
impl fmt::Display for ReplyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { status, .. } => status.fmt(f),
            Self::Denied { cause, .. } => cause.fmt(f),
        }
    }
}

impl Encode for ReplyHeader {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.xid());
        w.u32(REPLY);
        match self {
            Self::Accepted {
                verifier, status, ..
            } => {
                w.u32(MSG_ACCEPTED);
                w.write(verifier);
                w.write(status);
            }
            Self::Denied { cause, .. } => {
                w.u32(MSG_DENIED);
                w.write(cause);
            }
        }
    }
}
