//! Tells calls from replies. Both arrive on one connection when an NFSv4.1
//! session uses it for its back channel (RFC 8881, section 2.10.3.1).

use xdr::Reader;

use crate::call::{CALL, CallHeader};
use crate::error::MessageError;
use crate::reply::{REPLY, ReplyHeader};

/// The header of a message of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A call.
    Call(CallHeader),
    /// A reply.
    Reply(ReplyHeader),
}

impl Message {
    /// Consumes the header of a message; arguments or results remain.
    pub fn parse(r: &mut Reader) -> Result<Self, MessageError> {
        let xid = r.u32().map_err(MessageError::Short)?;
        match r.u32().map_err(MessageError::Short)? {
            CALL => Ok(Self::Call(CallHeader::parse_body(xid, r)?)),
            REPLY => ReplyHeader::parse_body(xid, r)
                .map(Self::Reply)
                .map_err(MessageError::Reply),
            other => Err(MessageError::UnexpectedKind(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use xdr::{Bytes, Encode, Writer};

    use super::*;
    use crate::{AcceptStat, AuthStat, RejectedReply, VersionRange};

    fn encoded<T: Encode>(value: &T) -> Bytes {
        let mut w = Writer::new();
        w.write(value);
        w.into_bytes()
    }

    fn parse(bytes: &[u8]) -> Result<Message, MessageError> {
        Message::parse(&mut Reader::new(Bytes::copy_from_slice(bytes)))
    }

    #[test]
    fn replies_have_the_bytes_of_rfc_5531() {
        let range = VersionRange { low: 2, high: 4 };
        let accepted = [0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let denied = [0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1];
        let cases: [(ReplyHeader, &[u8], &[u8]); 8] = [
            (ReplyHeader::success(7), &accepted, &[0, 0, 0, 0]),
            (
                ReplyHeader::accepted(7, AcceptStat::ProgramUnavailable),
                &accepted,
                &[0, 0, 0, 1],
            ),
            (
                ReplyHeader::accepted(7, AcceptStat::ProgramMismatch(range)),
                &accepted,
                &[0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 4],
            ),
            (
                ReplyHeader::accepted(7, AcceptStat::ProcedureUnavailable),
                &accepted,
                &[0, 0, 0, 3],
            ),
            (
                ReplyHeader::accepted(7, AcceptStat::GarbageArguments),
                &accepted,
                &[0, 0, 0, 4],
            ),
            (
                ReplyHeader::accepted(7, AcceptStat::SystemError),
                &accepted,
                &[0, 0, 0, 5],
            ),
            (
                ReplyHeader::rejected(7, RejectedReply::RpcMismatch(range)),
                &denied,
                &[0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 4],
            ),
            (
                ReplyHeader::rejected(7, RejectedReply::AuthError(AuthStat::TooWeak)),
                &denied,
                &[0, 0, 0, 1, 0, 0, 0, 5],
            ),
        ];
        for (header, start, end) in cases {
            let golden = [start, end].concat();
            assert_eq!(encoded(&header), golden);
            assert_eq!(parse(&golden), Ok(Message::Reply(header)));
        }
    }

    #[test]
    fn a_message_is_a_call_or_a_reply() {
        assert_eq!(
            parse(&[0, 0, 0, 7, 0, 0, 0, 2]),
            Err(MessageError::UnexpectedKind(2))
        );
        assert!(matches!(
            parse(&[0, 0, 0, 7, 0, 0]),
            Err(MessageError::Short(_))
        ));
        assert!(matches!(parse(&[]), Err(MessageError::Short(_))));
    }

    #[test]
    fn a_truncated_reply_is_malformed() {
        let whole = encoded(&ReplyHeader::success(7));
        for end in 8..whole.len() {
            assert!(matches!(parse(&whole[..end]), Err(MessageError::Reply(_))));
        }
    }
}
