//! Whole messages, written down by hand from the XDR of RFC 5662, RFC 7863 and
//! RFC 8276. Each must decode to the value beside it and be produced by it.

mod layouts;
mod names_and_data;
mod requests;
mod sessions;
mod state;

use bytes::Bytes;
use nfs4::{ArgOp4, OpArgs, ResOp4, SessionId4, StateOwner4, Stateid4};
use xdr::{Encode, Reader, Writer};

/// Reads hexadecimal; text after a `;` is a comment.
fn bytes(text: &str) -> Bytes {
    let digits: Vec<u8> = text
        .lines()
        .flat_map(|line| line.split(';').next().unwrap_or_default().bytes())
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let value = |digit: u8| char::from(digit).to_digit(16).expect("hexadecimal") as u8;
    digits
        .chunks_exact(2)
        .map(|pair| value(pair[0]) << 4 | value(pair[1]))
        .collect()
}

fn encoded<T: Encode>(value: &T) -> Bytes {
    let mut w = Writer::new();
    w.write(value);
    w.into_bytes()
}

#[track_caller]
fn check_op(op: ArgOp4, golden: &str) {
    let golden = bytes(golden);
    assert_eq!(encoded(&op), golden, "encoding");
    let mut r = Reader::new(golden);
    assert_eq!(ArgOp4::decode_op(&mut r), Ok(op), "decoding");
    assert_eq!(r.finish(), Ok(()));
}

#[track_caller]
fn check_result(result: ResOp4, golden: &str) {
    let golden = bytes(golden);
    assert_eq!(encoded(&result), golden, "encoding");
    let mut r = Reader::new(golden);
    assert_eq!(r.read(), Ok(result), "decoding");
    assert_eq!(r.finish(), Ok(()));
}

const STATEID: Stateid4 = Stateid4 {
    seqid: 1,
    other: *b"abcdefghijkl",
};
const SESSION: SessionId4 = SessionId4(*b"0123456789abcdef");

fn owner() -> StateOwner4 {
    StateOwner4 {
        clientid: 0x0102_0304_0506_0708,
        owner: Bytes::from_static(b"open id"),
    }
}
