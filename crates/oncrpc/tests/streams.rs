//! Records cut into any fragments that arrive in any pieces, and headers with any
//! content, are received as they were sent.

use bytes::Bytes;
use oncrpc::{
    AcceptStat, AuthFlavor, AuthStat, AuthSys, CallHeader, Credentials, Groups, MACHINE_NAME_MAX,
    Message, OPAQUE_AUTH_MAX, OpaqueAuth, RecordSplitter, RejectedReply, ReplyHeader, VersionRange,
    frame,
};
use proptest::collection::vec;
use proptest::prelude::*;
use xdr::{Encode, Reader, Rope, Writer};

/// A record as the contents of its fragments.
fn record() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..200), 1..5)
}

fn on_the_wire(records: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for fragments in records {
        for (index, content) in fragments.iter().enumerate() {
            let last = u32::from(index + 1 == fragments.len()) << 31;
            stream.extend((content.len() as u32 | last).to_be_bytes());
            stream.extend(content);
        }
    }
    stream
}

fn encoded<T: Encode>(value: &T) -> Bytes {
    let mut w = Writer::new();
    w.write(value);
    w.into_bytes()
}

fn opaque(length: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..=length).prop_map(Bytes::from)
}

fn credentials() -> impl Strategy<Value = Credentials> {
    let groups = vec(any::<u32>(), 0..=Groups::MAX).prop_map(|all| Groups::first_of(&all));
    let sys = (
        any::<u32>(),
        opaque(MACHINE_NAME_MAX),
        any::<[u32; 2]>(),
        groups,
    );
    prop_oneof![
        Just(Credentials::None),
        sys.prop_map(|(stamp, machinename, [uid, gid], gids)| {
            Credentials::Sys(AuthSys {
                stamp,
                machinename,
                uid,
                gid,
                gids,
            })
        }),
        (2u32.., opaque(OPAQUE_AUTH_MAX))
            .prop_map(|(flavor, body)| Credentials::Unsupported { flavor, body }),
    ]
}

fn verifier() -> impl Strategy<Value = OpaqueAuth> {
    (any::<u32>(), opaque(OPAQUE_AUTH_MAX)).prop_map(|(flavor, body)| OpaqueAuth { flavor, body })
}

fn call() -> impl Strategy<Value = CallHeader> {
    (any::<[u32; 4]>(), credentials(), verifier()).prop_map(|(words, credentials, verifier)| {
        let [xid, program, version, procedure] = words;
        CallHeader {
            xid,
            program,
            version,
            procedure,
            credentials,
            verifier,
        }
    })
}

fn reply() -> impl Strategy<Value = ReplyHeader> {
    let range = || any::<[u32; 2]>().prop_map(|[low, high]| VersionRange { low, high });
    let status = prop_oneof![
        Just(AcceptStat::Success),
        Just(AcceptStat::ProgramUnavailable),
        range().prop_map(AcceptStat::ProgramMismatch),
        Just(AcceptStat::ProcedureUnavailable),
        Just(AcceptStat::GarbageArguments),
        Just(AcceptStat::SystemError),
    ];
    let cause = prop_oneof![
        range().prop_map(RejectedReply::RpcMismatch),
        prop::sample::select(AuthStat::ALL).prop_map(RejectedReply::AuthError),
    ];
    prop_oneof![
        (any::<u32>(), verifier(), status).prop_map(|(xid, verifier, status)| {
            ReplyHeader::Accepted {
                xid,
                verifier,
                status,
            }
        }),
        (any::<u32>(), cause).prop_map(|(xid, cause)| ReplyHeader::Denied { xid, cause }),
    ]
}

proptest! {
    #[test]
    fn records_do_not_depend_on_the_pieces_they_come_in(
        records in vec(record(), 0..6),
        pieces in vec(1usize..300, 1..40),
    ) {
        let stream = on_the_wire(&records);
        let mut splitter = RecordSplitter::new(1000);
        let mut received = Vec::new();
        let mut rest = &stream[..];
        for &piece in pieces.iter().cycle() {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            splitter.read_buffer().extend_from_slice(now);
            while let Some(record) = splitter.next_record().expect("is within the limit") {
                received.push(record);
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert!(splitter.is_between_records());
        let sent: Vec<Vec<u8>> = records.iter().map(|fragments| fragments.concat()).collect();
        prop_assert_eq!(received, sent);
    }

    /// For any pieces, a record of exactly the limit passes and a record with one byte more
    /// does not.
    #[test]
    fn the_limit_is_exact(fragments in record()) {
        let stream = on_the_wire(std::slice::from_ref(&fragments));
        let length = fragments.concat().len();
        let outcome = |limit: usize| {
            let mut splitter = RecordSplitter::new(limit);
            splitter.read_buffer().extend_from_slice(&stream);
            splitter.next_record()
        };
        prop_assert_eq!(outcome(length), Ok(Some(Bytes::from(fragments.concat()))));
        if let Some(limit) = length.checked_sub(1) {
            prop_assert!(outcome(limit).is_err());
        }
    }

    #[test]
    fn a_framed_message_is_one_record(message in opaque(3000)) {
        let framed = frame(Rope::from(message.clone())).expect("is short").into_contiguous();
        let mut splitter = RecordSplitter::new(3000);
        splitter.read_buffer().extend_from_slice(&framed);
        prop_assert_eq!(splitter.next_record(), Ok(Some(message)));
        prop_assert!(splitter.is_between_records());
    }

    #[test]
    fn headers_come_out_as_they_were_sent(call in call(), reply in reply(), rest in opaque(16)) {
        for message in [Message::Call(call), Message::Reply(reply)] {
            let header = match &message {
                Message::Call(call) => encoded(call),
                Message::Reply(reply) => encoded(reply),
            };
            let mut r = Reader::new(Bytes::from([&header[..], &rest[..]].concat()));
            prop_assert_eq!(Message::parse(&mut r), Ok(message));
            prop_assert_eq!(r.into_rest(), &rest);
            for end in 0..header.len() {
                prop_assert!(Message::parse(&mut Reader::new(header.slice(..end))).is_err());
            }
        }
    }
}

#[test]
fn flavors_have_the_numbers_of_rfc_5531() {
    assert_eq!(Credentials::None.flavor(), 0);
    assert_eq!(AuthFlavor::SYS.0, 1);
    assert_eq!(AuthFlavor::RPCSEC_GSS.0, 6);
}
