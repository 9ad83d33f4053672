//! Encoded values decode to the same values, for every operation, result,
//! callback and attribute; truncated encodings never decode.

use std::collections::BTreeSet;

use crate::strategies::{arguments, basics, callbacks, layouts, results};
use bytes::Bytes;
use nfs4::callback::{CbArgOp4, CbCompoundArgs, CbCompoundCall, CbOpnum, CbResOp4};
use nfs4::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use xdr::{Decode, Encode, Reader, Writer};

fn encoded<T: Encode + ?Sized>(value: &T) -> Bytes {
    let mut w = Writer::new();
    w.write(value);
    let position = w.position();
    let bytes = w.into_bytes();
    assert_eq!(bytes.len(), position);
    bytes
}

fn decoded<T: Decode>(bytes: Bytes) -> T {
    let mut r = Reader::new(bytes);
    let value = r.read().expect("was encoded by us");
    r.finish().expect("is consumed as a whole");
    value
}

fn every_cut(bytes: &Bytes) -> impl Iterator<Item = Bytes> {
    // Large payloads make for many cuts that are all alike.
    let step = bytes.len() / 500 + 1;
    (0..bytes.len()).step_by(step).map(|end| bytes.slice(..end))
}

proptest! {
    #[test]
    fn operations(op in arguments::any_op()) {
        let bytes = encoded(&op);
        let mut r = Reader::new(bytes.clone());
        prop_assert_eq!(ArgOp4::decode_op(&mut r), Ok(op.clone()));
        prop_assert_eq!(r.finish(), Ok(()));
        prop_assert!(op.is_decoded());
        for cut in every_cut(&bytes) {
            prop_assert!(ArgOp4::decode_op(&mut Reader::new(cut)).is_err());
        }
    }

    #[test]
    fn results_of_operations(result in results::any_result()) {
        let bytes = encoded(&result);
        prop_assert_eq!(&decoded::<ResOp4>(bytes.clone()), &result);
        prop_assert_eq!(&bytes[..4], &result.opnum().to_be_bytes());
        prop_assert_eq!(&bytes[4..8], &u32::from(result.status()).to_be_bytes());
        for cut in every_cut(&bytes) {
            prop_assert!(Reader::new(cut).read::<ResOp4>().is_err());
        }
    }

    #[test]
    fn callbacks_and_their_results(
        op in callbacks::any_op(),
        result in callbacks::any_result(),
    ) {
        let bytes = encoded(&op);
        let mut r = Reader::new(bytes.clone());
        prop_assert_eq!(CbArgOp4::decode_op(&mut r), Ok(op));
        prop_assert_eq!(r.finish(), Ok(()));
        for cut in every_cut(&bytes) {
            prop_assert!(CbArgOp4::decode_op(&mut Reader::new(cut)).is_err());
        }
        prop_assert_eq!(decoded::<CbResOp4>(encoded(&result)), result);
    }

    #[test]
    fn whole_requests(
        tag in crate::strategies::opaque(20),
        ops in vec(arguments::any_op(), 0..6),
        callbacks in vec(callbacks::any_op(), 0..4),
    ) {
        let call = CompoundCall { tag: tag.clone(), minorversion: 1, ops };
        let received = CompoundArgs::parse(Reader::new(encoded(&call))).expect("is well formed");
        prop_assert_eq!(received.count as usize, call.ops.len());
        let ops: Result<Vec<_>, _> = received.ops.collect();
        prop_assert_eq!(ops, Ok(call.ops));

        let call = CbCompoundCall { tag, minorversion: 1, ops: callbacks };
        let received = CbCompoundArgs::parse(Reader::new(encoded(&call))).expect("is well formed");
        let ops: Result<Vec<_>, _> = received.ops.collect();
        prop_assert_eq!(ops, Ok(call.ops));
    }

    #[test]
    fn bodies_of_layouts(layout in layouts::file_layout(), device in layouts::data_servers()) {
        let (of_layout, of_device) = (encoded(&layout), encoded(&device));
        for cut in every_cut(&of_layout) {
            prop_assert!(Reader::new(cut).read::<FileLayout4>().is_err());
        }
        for cut in every_cut(&of_device) {
            prop_assert!(Reader::new(cut).read::<FileLayoutDsAddr4>().is_err());
        }
        prop_assert_eq!(decoded::<FileLayout4>(of_layout), layout);
        prop_assert_eq!(decoded::<FileLayoutDsAddr4>(of_device), device);
    }

    /// A reply written piece by piece is the same as one written whole, and what
    /// does not fit leaves no trace.
    #[test]
    fn whole_replies(
        tag in crate::strategies::opaque(20),
        results in vec(results::any_result(), 1..6),
        surplus in results::any_result(),
    ) {
        let mut w = Writer::new();
        let mut reply = CompoundReply::begin(&mut w, &tag);
        for result in &results {
            reply.push(&mut w, result);
        }
        let before = w.position();
        let size = encoded(&surplus).len();
        prop_assert_eq!(
            reply.push_within(&mut w, before + size - 1, &surplus),
            Err(DoesNotFit { size })
        );
        prop_assert_eq!(w.position(), before);
        prop_assert_eq!(reply.len() as usize, results.len());
        let status = reply.finish(&mut w);

        let whole = CompoundRes { status: results[results.len() - 1].status(), tag, results };
        prop_assert_eq!(status, whole.status);
        let bytes = w.into_bytes();
        prop_assert_eq!(&bytes, &encoded(&whole));
        prop_assert_eq!(decoded::<CompoundRes>(bytes), whole);
    }

    /// Raw attribute bytes either decode to values that encode to the same bytes,
    /// or are refused.
    #[test]
    fn attributes(
        words in vec(any::<u32>(), 3),
        values in vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..400),
    ) {
        let attrmask = basics::set_of(&words) & Attributes4::KNOWN;
        let fattr = Fattr4 { attrmask, attr_vals: Bytes::from(values) };
        if let Ok(attributes) = Attributes4::decode(&fattr) {
            prop_assert_eq!(attributes.present(), attrmask);
            let again = attributes.encode(&attrmask);
            prop_assert_eq!(Attributes4::decode(&again), Ok(attributes));
        }
    }

    /// Entries that were encoded one by one travel like a list of them, and each takes as much space as was said.
    #[test]
    fn entries_encoded_one_by_one(names in vec(basics::name(), 0..4), attrs in basics::fattr(), short in 1usize..9) {
        let entry = |name: &Component4| Entry4 { cookie: 3, name: name.clone(), attrs: attrs.clone() };
        let reply = |reply| ReaddirResOk { cookieverf: Verifier4::default(), reply };
        let listed = reply(DirList4 { entries: names.iter().map(entry).collect(), ..DirList4::default() });
        let mut writer = EntryWriter::default();
        let mut size = ReaddirResOk::EMPTY_SIZE;
        for name in &names {
            let attributes = |w: &mut Writer| w.write(&attrs);
            let took = writer.push(usize::MAX, (3, &name.0), attributes).unwrap();
            prop_assert_eq!(writer.push(took - short, (3, &name.0), attributes), None);
            size += took;
        }
        prop_assert_eq!(writer.is_empty(), names.is_empty());
        let whole = encoded(&reply(DirList4 { encoded: writer.finish(), ..DirList4::default() }));
        prop_assert_eq!(whole.len(), size);
        prop_assert_eq!(whole, encoded(&listed));
    }
}

/// The properties above are worth something only if the strategies leave no
/// operation out.
#[test]
fn every_operation_is_tried() {
    const UNDECODED: [Opnum; 14] = [
        Opnum::OpenConfirm,
        Opnum::Renew,
        Opnum::Setclientid,
        Opnum::SetclientidConfirm,
        Opnum::ReleaseLockowner,
        Opnum::Copy,
        Opnum::CopyNotify,
        Opnum::Layouterror,
        Opnum::Layoutstats,
        Opnum::OffloadCancel,
        Opnum::OffloadStatus,
        Opnum::ReadPlus,
        Opnum::WriteSame,
        Opnum::Illegal,
    ];
    let expected: BTreeSet<u32> = Opnum::ALL
        .iter()
        .filter(|op| !UNDECODED.contains(op))
        .map(|&op| op.into())
        .collect();
    assert_eq!(seen(arguments::any_op(), ArgOp4::opnum), expected);
    let mut successes = seen(
        results::any_result().prop_filter("succeeds", |result| result.status().is_ok()),
        ResOp4::opnum,
    );
    successes.retain(|number| expected.contains(number));
    assert_eq!(successes, expected);

    let known = [
        CbOpnum::Getattr,
        CbOpnum::Recall,
        CbOpnum::RecallAny,
        CbOpnum::RecallSlot,
        CbOpnum::Sequence,
        CbOpnum::NotifyLock,
        CbOpnum::Layoutrecall,
        CbOpnum::NotifyDeviceid,
    ];
    let expected: BTreeSet<u32> = known.iter().map(|&op| op.into()).collect();
    assert_eq!(seen(callbacks::any_op(), CbArgOp4::opnum), expected);
}

/// The numbers that a strategy comes up with in many tries, always the same ones.
fn seen<S: Strategy>(strategy: S, number: impl Fn(&S::Value) -> u32) -> BTreeSet<u32> {
    let mut runner = TestRunner::deterministic();
    (0..5000)
        .map(|_| {
            let tree = strategy
                .new_tree(&mut runner)
                .expect("strategies do not give up");
            number(&tree.current())
        })
        .collect()
}
