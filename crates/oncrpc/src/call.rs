//! The header of a call (RFC 5531, section 9), up to where the arguments of the
//! procedure begin.

use xdr::{Decode, Encode, Reader, Writer};

use crate::RPC_VERSION;
use crate::credentials::{Credentials, OpaqueAuth};
use crate::error::{CallError, MessageError};

/// The kind of the message, `msg_type`.
pub(crate) const CALL: u32 = 0;

/// The called procedure, and the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallHeader {
    /// Number that the reply repeats.
    pub xid: u32,
    /// The program called.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The procedure of that version.
    pub procedure: u32,
    /// The identity the caller claims.
    pub credentials: Credentials,
    /// Proves the credentials; AUTH_NONE with the flavors known here.
    pub verifier: OpaqueAuth,
}

impl CallHeader {
    /// Consumes a whole call header; the arguments of the procedure remain.
    pub fn parse(r: &mut Reader) -> Result<Self, MessageError> {
        let xid = r.u32().map_err(CallError::from)?;
        match r.u32().map_err(CallError::from)? {
            CALL => Ok(Self::parse_body(xid, r)?),
            other => Err(MessageError::UnexpectedKind(other)),
        }
    }

    /// Consumes what follows the number and the kind of the message.
    pub(crate) fn parse_body(xid: u32, r: &mut Reader) -> Result<Self, CallError> {
        let version = r.u32()?;
        if version != RPC_VERSION {
            return Err(CallError::RpcVersion { xid, version });
        }
        let (program, version, procedure) = (r.u32()?, r.u32()?, r.u32()?);
        let credentials = OpaqueAuth::decode(r)?;
        let verifier = OpaqueAuth::decode(r)?;
        let credentials = Credentials::parse(credentials)
            .map_err(|cause| CallError::BadCredentials { xid, cause })?;
        Ok(Self {
            xid,
            program,
            version,
            procedure,
            credentials,
            verifier,
        })
    }
}

impl Encode for CallHeader {
    fn encode(&self, w: &mut Writer) {
        for word in [
            self.xid,
            CALL,
            RPC_VERSION,
            self.program,
            self.version,
            self.procedure,
        ] {
            w.u32(word);
        }
        w.write(&self.credentials);
        w.write(&self.verifier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::{AuthStat, RejectedReply, ReplyHeader, VersionRange};
    use xdr::Bytes;

    fn null_call() -> CallHeader {
        CallHeader {
            xid: 0xaabb_ccdd,
            program: 100_003,
            version: 4,
            procedure: 0,
            credentials: Credentials::None,
            verifier: OpaqueAuth::none(),
        }
    }

    #[rustfmt::skip]
    const NULL_CALL: &[u8] = &[
        0xaa, 0xbb, 0xcc, 0xdd,     // xid
        0, 0, 0, 0,                 // CALL
        0, 0, 0, 2,                 // RPC version
        0, 1, 0x86, 0xa3,           // program 100003
        0, 0, 0, 4,                 // version
        0, 0, 0, 0,                 // procedure
        0, 0, 0, 0, 0, 0, 0, 0,     // AUTH_NONE credentials
        0, 0, 0, 0, 0, 0, 0, 0,     // AUTH_NONE verifier
    ];

    fn parse(bytes: &[u8]) -> Result<CallHeader, MessageError> {
        CallHeader::parse(&mut Reader::new(Bytes::copy_from_slice(bytes)))
    }

    #[test]
    fn a_null_call_has_the_bytes_of_rfc_5531() {
        let mut w = Writer::new();
        w.write(&null_call());
        assert_eq!(&w.into_bytes()[..], NULL_CALL);
        assert_eq!(parse(NULL_CALL), Ok(null_call()));
    }

    #[test]
    fn another_rpc_version_is_answered_with_ours() {
        let mut bytes = NULL_CALL.to_vec();
        bytes[11] = 3;
        let Err(MessageError::Call(error)) = parse(&bytes) else {
            panic!("was accepted")
        };
        assert_eq!(
            error,
            CallError::RpcVersion {
                xid: 0xaabb_ccdd,
                version: 3
            }
        );
        assert_eq!(
            error.reply(),
            Some(ReplyHeader::rejected(
                0xaabb_ccdd,
                RejectedReply::RpcMismatch(VersionRange { low: 2, high: 2 })
            ))
        );
    }

    #[test]
    fn malformed_auth_sys_is_answered_as_bad_credentials() {
        let mut bytes = NULL_CALL.to_vec();
        bytes[27] = 1;
        let Err(MessageError::Call(error)) = parse(&bytes) else {
            panic!("was accepted")
        };
        assert_eq!(
            error.reply(),
            Some(ReplyHeader::rejected(
                0xaabb_ccdd,
                RejectedReply::AuthError(AuthStat::BadCredentials)
            ))
        );
    }

    #[test]
    fn every_truncation_is_malformed_and_unanswered() {
        for end in 0..NULL_CALL.len() {
            let Err(MessageError::Call(error)) = parse(&NULL_CALL[..end]) else {
                panic!("{end} bytes were accepted")
            };
            assert!(matches!(error, CallError::Malformed(_)));
            assert_eq!(error.reply(), None);
        }
    }
}
