//! One function for each decoder of NFS and RPC that bytes from a network can reach. For any
//! input it checks: no panic; the encoding of a decoded value decodes to the same
//! value; and no more memory is kept than was received, because the value
//! can be encoded in at most the number of decoded bytes.
//!
//! Used by the fuzz targets (`decoders.rs`) and by `crates/nfs4/tests/garbage.rs`.

use std::fmt::Debug;

use bytes::Bytes;
use nfs4::callback::{CbArgOp4, CbCompoundArgs, CbCompoundRes, NotifyDeviceidDelete4};
use nfs4::{
    Attributes4, CompoundArgs, CompoundRes, Fattr4, FileLayout4, FileLayoutDsAddr4, OpArgs,
    Operations,
};
use oncrpc::{CallHeader, Message, MessageError, RecordError, RecordSplitter};
use xdr::{Decode, Encode, Reader, Writer};

/// The arguments of a COMPOUND, as a server receives them.
pub fn request(input: &[u8]) {
    if let Ok(request) = CompoundArgs::parse(Reader::new(Bytes::copy_from_slice(input))) {
        operations(request.ops, input.len());
    }
}

/// The results of a COMPOUND, as a client receives them, and the bodies of layouts.
pub fn reply(input: &[u8]) {
    value::<CompoundRes>(input);
    value::<FileLayout4>(input);
    value::<FileLayoutDsAddr4>(input);
    value::<NotifyDeviceidDelete4>(input);
}

/// A CB_COMPOUND, as a client receives it, and the reply, as a server does.
pub fn callback(input: &[u8]) {
    if let Ok(request) = CbCompoundArgs::parse(Reader::new(Bytes::copy_from_slice(input))) {
        operations::<CbArgOp4>(request.ops, input.len());
    }
    value::<CbCompoundRes>(input);
}

/// Encoded attributes.
pub fn attributes(input: &[u8]) {
    let Ok(fattr) = Reader::new(Bytes::copy_from_slice(input)).read::<Fattr4>() else {
        return;
    };
    if let Ok(attributes) = Attributes4::decode(&fattr) {
        assert_eq!(attributes.present(), fattr.attrmask);
        let again = attributes.encode(&fattr.attrmask);
        assert!(again.attr_vals.len() <= fattr.attr_vals.len());
        assert_eq!(Attributes4::decode(&again), Ok(attributes));
    }
}

/// The header of an RPC message, of either kind.
pub fn rpc_message(input: &[u8]) {
    let mut r = Reader::new(Bytes::copy_from_slice(input));
    match Message::parse(&mut r) {
        Ok(Message::Call(call)) => {
            let again = encoded(&call);
            // The body of AUTH_NONE is not kept.
            assert!(again.len() <= input.len() - r.remaining());
            assert_eq!(CallHeader::parse(&mut Reader::new(again)), Ok(call));
        }
        Ok(Message::Reply(reply)) => {
            let again = encoded(&reply);
            assert_eq!(again.len(), input.len() - r.remaining());
            let parsed = Message::parse(&mut Reader::new(again));
            assert_eq!(parsed, Ok(Message::Reply(reply)));
        }
        Err(MessageError::Call(error)) => {
            if let Some(reply) = error.reply() {
                let parsed = Message::parse(&mut Reader::new(encoded(&reply)));
                assert_eq!(parsed, Ok(Message::Reply(reply)));
            }
        }
        Err(_) => {}
    }
}

/// A byte stream that is cut into records. The first byte selects the
/// pieces in which it arrives; the result must not depend on them.
pub fn records(input: &[u8]) {
    const RECORD_MAX: usize = 4096;
    let Some((&piece, stream)) = input.split_first() else {
        return;
    };
    let cut = |piece: usize| {
        let mut splitter = RecordSplitter::new(RECORD_MAX);
        let mut records = Vec::new();
        for bytes in stream.chunks(piece) {
            splitter.read_buffer().extend_from_slice(bytes);
            loop {
                match splitter.next_record() {
                    Ok(Some(record)) => records.push(record),
                    Ok(None) => break,
                    Err(error) => return (records, Some(error)),
                }
            }
        }
        (records, None)
    };
    let (records, error) = cut(usize::from(piece) + 1);
    assert!(records.iter().all(|record| record.len() <= RECORD_MAX));
    assert!(records.iter().map(Bytes::len).sum::<usize>() <= stream.len());
    if let Some(RecordError::TooLarge { length, max }) = error {
        assert!(length > max);
    }
    assert_eq!(cut(stream.len().max(1)), (records, error));
}

fn operations<A: OpArgs + Debug + PartialEq>(ops: Operations<A>, received: usize) {
    let mut kept = 0;
    for op in ops.map_while(Result::ok) {
        let again = encoded(&op);
        kept += again.len();
        if op.is_decoded() {
            assert_eq!(A::decode_op(&mut Reader::new(again)), Ok(op));
        }
    }
    assert!(kept <= received);
}

fn value<T: Encode + Decode + Debug + PartialEq>(input: &[u8]) {
    let mut r = Reader::new(Bytes::copy_from_slice(input));
    if let Ok(value) = r.read::<T>() {
        let again = encoded(&value);
        assert!(again.len() <= input.len() - r.remaining());
        assert_eq!(Reader::new(again).read(), Ok(value));
    }
}

fn encoded<T: Encode>(value: &T) -> Bytes {
    let mut w = Writer::new();
    w.write(value);
    w.into_bytes()
}
