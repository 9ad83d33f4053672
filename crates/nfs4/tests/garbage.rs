//! Every decoder that bytes from a network can reach, over random bytes and over
//! valid messages with something broken. A stand-in for the fuzz targets that
//! needs no special compiler; the same seed gives the same inputs every time.

#[path = "../../../fuzz/nfs.rs"]
mod decoders;
#[path = "../../../fuzz/inputs.rs"]
mod inputs;

use crate::strategies::{arguments, basics, callbacks, layouts, results};
use bytes::Bytes;
use inputs::Numbers;
use nfs4::callback::CbCompoundCall;
use nfs4::{Attributes4, CompoundCall, CompoundRes, NfsStat4};
use oncrpc::{AuthSys, CallHeader, Credentials, Groups, OpaqueAuth, ReplyHeader};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use xdr::{Encode, Writer};

/// Inputs for each decoder and each way of making them.
const ROUNDS: usize = 20_000;

fn encoded<T: Encode>(value: &T) -> Bytes {
    let mut w = Writer::new();
    w.write(value);
    w.into_bytes()
}

/// Runs a decoder over random bytes, and over broken copies of valid messages,
/// which must be accepted when they are whole.
fn torment(seed: u64, decoder: fn(&[u8]), valid: &[Bytes]) {
    let mut numbers = Numbers::new(seed);
    for _ in 0..ROUNDS {
        decoder(&numbers.message());
    }
    for message in valid {
        decoder(message);
    }
    for round in 0..ROUNDS {
        let mut message = valid[round % valid.len()].to_vec();
        numbers.mutate(&mut message);
        decoder(&message);
    }
}

fn samples<T>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    let sample = |_| {
        strategy
            .new_tree(&mut runner)
            .expect("strategies do not give up")
            .current()
    };
    (0..400).map(sample).collect()
}

#[test]
fn requests() {
    let ops = vec(
        arguments::any_op().prop_filter("payloads teach nothing", is_small),
        1..4,
    );
    let call = ops.prop_map(|ops| CompoundCall {
        tag: Bytes::new(),
        minorversion: 1,
        ops,
    });
    let valid: Vec<_> = samples(call).iter().map(encoded).collect();
    torment(1, decoders::request, &valid);
}

#[test]
fn replies() {
    let results = vec(
        results::any_result().prop_filter("payloads teach nothing", is_small),
        1..4,
    );
    let reply = results.prop_map(|results| CompoundRes {
        status: NfsStat4::Ok,
        tag: Bytes::new(),
        results,
    });
    let valid: Vec<_> = samples(reply).iter().map(encoded).collect();
    torment(2, decoders::reply, &valid);
}

#[test]
fn callbacks_and_their_replies() {
    let call = vec(callbacks::any_op(), 1..4).prop_map(|ops| CbCompoundCall {
        tag: Bytes::new(),
        minorversion: 1,
        ops,
    });
    let reply = vec(callbacks::any_result(), 1..4).prop_map(|results| CompoundRes {
        status: NfsStat4::Ok,
        tag: Bytes::new(),
        results,
    });
    let mut valid: Vec<_> = samples(call).iter().map(encoded).collect();
    valid.extend(samples(reply).iter().map(encoded));
    torment(3, decoders::callback, &valid);
}

#[test]
fn bodies_of_layouts() {
    let mut valid: Vec<_> = samples(layouts::file_layout())
        .iter()
        .map(encoded)
        .collect();
    valid.extend(samples(layouts::data_servers()).iter().map(encoded));
    torment(7, decoders::reply, &valid);
}

#[test]
fn attributes() {
    let words = vec(0u8..3, 400).prop_map(Bytes::from);
    let masks = vec(any::<u32>(), 3);
    let valid: Vec<_> = samples((masks, words))
        .into_iter()
        .map(|(mask, attr_vals)| {
            let attrmask = basics::set_of(&mask) & Attributes4::KNOWN;
            encoded(&nfs4::Fattr4 {
                attrmask,
                attr_vals,
            })
        })
        .collect();
    torment(4, decoders::attributes, &valid);
}

fn call() -> CallHeader {
    CallHeader {
        xid: 7,
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        procedure: nfs4::PROC_COMPOUND,
        credentials: Credentials::Sys(AuthSys {
            stamp: 0,
            machinename: Bytes::from_static(b"host"),
            uid: 1,
            gid: 2,
            gids: Groups::first_of(&[3, 4, 5]),
        }),
        verifier: OpaqueAuth::none(),
    }
}

#[test]
fn rpc_messages() {
    let anonymous = CallHeader {
        credentials: Credentials::None,
        ..call()
    };
    let valid = [
        encoded(&call()),
        encoded(&anonymous),
        encoded(&ReplyHeader::success(7)),
    ];
    torment(5, decoders::rpc_message, &valid);
}

#[test]
fn records() {
    let fragment = |last: bool, content: &[u8]| {
        let mark = content.len() as u32 | u32::from(last) << 31;
        [&mark.to_be_bytes(), content].concat()
    };
    let stream = [
        vec![3],
        fragment(true, &encoded(&call())),
        fragment(false, b"ab"),
        fragment(false, b""),
        fragment(true, b"cde"),
        fragment(true, &[9; 2000]),
    ];
    torment(6, decoders::records, &[Bytes::from(stream.concat())]);
}

fn is_small<T: Encode>(value: &T) -> bool {
    encoded(value).len() < 2000
}
