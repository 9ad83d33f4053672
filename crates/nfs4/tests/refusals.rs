//! Requests and results that must be refused, and how: malformed ones, unknown
//! ones, and those that this side must not be able to send.

use bytes::Bytes;
use nfs4::*;
use xdr::{DecodeError, Encode, Reader, Writer};

fn encoded<T: Encode>(value: &T) -> Bytes {
    let mut w = Writer::new();
    w.write(value);
    w.into_bytes()
}

fn request(count: u32, ops: &[u32]) -> CompoundArgs {
    let mut w = Writer::new();
    for &word in [0, 1, count].iter().chain(ops) {
        w.u32(word);
    }
    CompoundArgs::parse(Reader::new(w.into_bytes())).expect("has a whole head")
}

#[test]
fn a_malformed_operation_is_named_and_ends_the_request() {
    // READ with half a stateid.
    let mut request = request(3, &[24, 25, 1, 2]);
    assert_eq!(request.next_op(), Some(Ok(ArgOp4::Putrootfh)));
    let error = request.next_op().unwrap().unwrap_err();
    assert_eq!(error.opnum, u32::from(Opnum::Read));
    assert!(matches!(error.cause, DecodeError::Truncated { .. }));
    assert_eq!(request.next_op(), None);
}

#[test]
fn an_operation_without_a_number_is_illegal() {
    let mut request = request(2, &[24]);
    assert_eq!(request.next_op(), Some(Ok(ArgOp4::Putrootfh)));
    let error = request.next_op().unwrap().unwrap_err();
    assert_eq!(error.opnum, u32::from(Opnum::Illegal));
    assert_eq!(request.next_op(), None);
}

#[test]
fn unknown_numbers_are_illegal_and_answered_as_such() {
    for number in [0, 1, 2, 76, 10_044, u32::MAX] {
        let mut request = request(2, &[number, 24]);
        let op = request.next_op().unwrap().unwrap();
        assert_eq!(op, ArgOp4::Illegal(number));
        assert_eq!(op.opnum(), u32::from(Opnum::Illegal));
        assert_eq!(request.next_op(), None);
    }
}

#[test]
fn undecoded_operations_keep_their_number_and_end_the_request() {
    for op in [
        Opnum::Layoutstats,
        Opnum::Copy,
        Opnum::Setclientid,
        Opnum::Renew,
    ] {
        let mut request = request(2, &[op.into(), 24]);
        assert_eq!(request.next_op(), Some(Ok(ArgOp4::Unsupported(op))));
        assert_eq!(request.next_op(), None);
    }
}

#[test]
fn operations_beyond_the_count_are_not_looked_at() {
    let mut request = request(1, &[24, 24]);
    assert!(request.next_op().is_some());
    assert_eq!(request.next_op(), None);
}

#[test]
fn values_that_an_enumeration_lacks_are_refused() {
    let op = |words: &[u32]| request(1, words).next_op().unwrap();
    // SECINFO_NO_NAME of style 2; OPENATTR with a boolean of 2.
    let cause = |words: &[u32]| op(words).unwrap_err().cause;
    assert_eq!(
        cause(&[52, 2]),
        DecodeError::UnknownValue {
            kind: "SecinfoStyle4",
            value: 2
        }
    );
    assert_eq!(
        cause(&[19, 2]),
        DecodeError::UnknownValue {
            kind: "bool",
            value: 2
        }
    );
}

#[test]
fn over_long_data_is_refused_and_long_names_are_not() {
    let lookup = |length: usize| {
        let name = Component4(Bytes::from(vec![b'n'; length]));
        let call = CompoundCall {
            tag: Bytes::new(),
            minorversion: 1,
            ops: vec![ArgOp4::Lookup(LookupArgs { objname: name })],
        };
        CompoundArgs::parse(Reader::new(encoded(&call)))
            .unwrap()
            .next_op()
            .unwrap()
    };
    assert!(lookup(COMPONENT_MAX).is_ok());
    assert_eq!(
        lookup(COMPONENT_MAX + 1).unwrap_err().cause,
        DecodeError::TooLong {
            length: COMPONENT_MAX + 1,
            max: COMPONENT_MAX
        }
    );
    let handle = NfsFh4(Bytes::from(vec![0; FHSIZE + 1]));
    assert_eq!(
        Reader::new(encoded(&handle)).read::<NfsFh4>(),
        Err(DecodeError::TooLong {
            length: FHSIZE + 1,
            max: FHSIZE
        })
    );
}

/// A failure that says "success" would be misread by the client, because the body
/// that it expects is missing.
#[test]
fn a_failure_is_never_sent_as_a_success() {
    let fault = u32::from(NfsStat4::ServerFault).to_be_bytes();
    for result in [
        ResOp4::Failed(Opnum::Getattr.into(), NfsStat4::Ok),
        ResOp4::Getattr(Err(NfsStat4::Ok)),
        ResOp4::Lock(LockRes::Err(NfsStat4::Ok)),
        ResOp4::Lockt(LocktRes::Err(NfsStat4::Ok)),
        // A denial must contain the conflicting lock.
        ResOp4::Lock(LockRes::Err(NfsStat4::Denied)),
        ResOp4::Lockt(LocktRes::Err(NfsStat4::Denied)),
        ResOp4::Failed(Opnum::Lock.into(), NfsStat4::Denied),
        ResOp4::Failed(Opnum::Layoutget.into(), NfsStat4::LayoutTryLater),
        ResOp4::Failed(Opnum::Getdeviceinfo.into(), NfsStat4::TooSmall),
    ] {
        let bytes = encoded(&result);
        assert_eq!(bytes[4..], fault, "{result:?}");
        assert_eq!(result.status(), NfsStat4::ServerFault);
        assert!(Reader::new(bytes).read::<ResOp4>().is_ok());
    }
}

#[test]
fn a_result_of_an_undecoded_operation_can_only_be_a_failure() {
    let mut w = Writer::new();
    w.write(&Opnum::Layoutstats);
    w.write(&NfsStat4::Ok);
    let error = Reader::new(w.into_bytes()).read::<ResOp4>().unwrap_err();
    assert_eq!(
        error,
        DecodeError::UnknownValue {
            kind: "ResOp4",
            value: 65
        }
    );
}

#[test]
fn operations_belong_to_minor_versions() {
    assert_eq!(Opnum::Setclientid.first_minor_version(), 0);
    assert_eq!(Opnum::ReclaimComplete.first_minor_version(), 1);
    assert_eq!(Opnum::Seek.first_minor_version(), 2);
    assert_eq!(Opnum::Removexattr.first_minor_version(), 2);
    assert_eq!(Opnum::Illegal.first_minor_version(), 0);
}
