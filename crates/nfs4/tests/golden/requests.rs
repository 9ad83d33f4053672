//! Whole requests, replies and callbacks.

use super::{SESSION, STATEID, bytes, encoded, owner};
use bytes::Bytes;
use nfs4::callback::{
    CbArgOp4, CbCompoundArgs, CbCompoundCall, CbNotifyLockArgs, CbRecallArgs, CbSequenceArgs,
    ReferringCall4, ReferringCallList4,
};
use nfs4::*;
use xdr::{Reader, Writer};

#[test]
fn a_request_and_its_reply() {
    let request = "
        00000004 70696e67           ; tag, 'ping'
        00000001                    ; minorversion
        00000003                    ; three operations
        00000018                    ; OP_PUTROOTFH
        0000000f 00000001 61 000000 ; OP_LOOKUP, 'a'
        0000000a                    ; OP_GETFH";
    let ops = vec![
        ArgOp4::Putrootfh,
        ArgOp4::Lookup(LookupArgs {
            objname: "a".into(),
        }),
        ArgOp4::Getfh,
    ];
    let call = CompoundCall {
        tag: Bytes::from_static(b"ping"),
        minorversion: 1,
        ops,
    };
    assert_eq!(encoded(&call), bytes(request));
    let received = CompoundArgs::parse(Reader::new(bytes(request))).unwrap();
    assert_eq!(
        (&received.tag[..], received.minorversion, received.count),
        (&b"ping"[..], 1, 3)
    );
    assert_eq!(
        received.ops.map(Result::unwrap).collect::<Vec<_>>(),
        call.ops
    );

    let reply = "
        00000002                    ; NFS4ERR_NOENT
        00000004 70696e67           ; tag
        00000002                    ; two results
        00000018 00000000           ; OP_PUTROOTFH, NFS4_OK
        0000000f 00000002           ; OP_LOOKUP, NFS4ERR_NOENT";
    let mut w = Writer::new();
    let mut building = CompoundReply::begin(&mut w, &call.tag);
    building.push(&mut w, &ResOp4::Putrootfh(NfsStat4::Ok));
    building.push(&mut w, &ResOp4::Lookup(NfsStat4::NoEnt));
    assert_eq!(building.finish(&mut w), NfsStat4::NoEnt);
    assert_eq!(w.into_bytes(), bytes(reply));
}

#[test]
fn callbacks() {
    let request = "
        00000000 00000001 00000000              ; tag, minorversion, callback_ident
        00000003                                ; three operations
        0000000b                                ; OP_CB_SEQUENCE
        30313233343536373839616263646566        ; csa_sessionid
        00000001 00000000 00000000 00000000     ; sequenceid, slotid, highest_slotid, cachethis
        00000001                                ; one referring_call_list4
        30313233343536373839616263646566        ; rcl_sessionid
        00000001 00000007 00000002              ; one call: rc_sequenceid, rc_slotid
        00000004                                ; OP_CB_RECALL
        00000001 6162636465666768696a6b6c       ; stateid
        00000000                                ; truncate
        00000002 6668 0000                      ; fh
        0000000d                                ; OP_CB_NOTIFY_LOCK
        00000002 6668 0000                      ; cnla_fh
        0102030405060708                        ; cnla_lock_owner.clientid
        00000007 6f70656e206964 00              ; cnla_lock_owner.owner";
    let fh = NfsFh4(Bytes::from_static(b"fh"));
    let ops = vec![
        CbArgOp4::Sequence(CbSequenceArgs {
            sessionid: SESSION,
            sequenceid: 1,
            slotid: 0,
            highest_slotid: 0,
            cachethis: false,
            referring_call_lists: vec![ReferringCallList4 {
                sessionid: SESSION,
                referring_calls: vec![ReferringCall4 {
                    sequenceid: 7,
                    slotid: 2,
                }],
            }],
        }),
        CbArgOp4::Recall(CbRecallArgs {
            stateid: STATEID,
            truncate: false,
            fh: fh.clone(),
        }),
        CbArgOp4::NotifyLock(CbNotifyLockArgs {
            fh,
            lock_owner: owner(),
        }),
    ];
    let call = CbCompoundCall {
        tag: Bytes::new(),
        minorversion: 1,
        ops,
    };
    assert_eq!(encoded(&call), bytes(request));
    let received = CbCompoundArgs::parse(Reader::new(bytes(request))).unwrap();
    assert_eq!(
        received.ops.map(Result::unwrap).collect::<Vec<_>>(),
        call.ops
    );
}
