//! Whole messages, written down by hand from the XDR of RFC 5662, RFC 7863 and
//! RFC 8276. Each must decode to the value beside it and be produced by it.
//!
//! The messages are in hexadecimal; what follows a `;` is a comment.

use bytes::Bytes;
use nfs4::callback::{
    CbArgOp4, CbCompoundArgs, CbCompoundCall, CbNotifyLockArgs, CbRecallArgs, CbSequenceArgs,
    ReferringCall4, ReferringCallList4,
};
use nfs4::*;
use oncrpc::{AuthSys, Groups};
use xdr::{Encode, Reader, Writer};

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
    w.finish().into_contiguous()
}

#[track_caller]
fn check_op(op: ArgOp4, golden: &str) {
    let golden = bytes(golden);
    assert_eq!(encoded(&op), golden, "encoding");
    let mut r = Reader::new(golden);
    assert_eq!(ArgOp4::decode_op(&mut r), Ok(op), "decoding");
    assert!(r.is_empty());
}

#[track_caller]
fn check_result(result: ResOp4, golden: &str) {
    let golden = bytes(golden);
    assert_eq!(encoded(&result), golden, "encoding");
    let mut r = Reader::new(golden);
    assert_eq!(r.read(), Ok(result), "decoding");
    assert!(r.is_empty());
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

#[test]
fn special_stateids() {
    let on_wire = |stateid: &Stateid4| encoded(stateid);
    assert_eq!(
        on_wire(&Stateid4::ANONYMOUS),
        bytes("00000000 000000000000000000000000")
    );
    assert_eq!(
        on_wire(&Stateid4::READ_BYPASS),
        bytes("ffffffff ffffffffffffffffffffffff")
    );
    assert_eq!(
        on_wire(&Stateid4::CURRENT),
        bytes("00000001 000000000000000000000000")
    );
    assert_eq!(
        on_wire(&Stateid4::INVALID),
        bytes("ffffffff 000000000000000000000000")
    );
}

#[test]
fn exchange_id() {
    let golden = "
        0000002a                            ; OP_EXCHANGE_ID
        0011223344556677                    ; co_verifier
        0000000a 4c696e757820686f7374 0000  ; co_ownerid, 'Linux host'
        00000103                            ; eia_flags: MOVED_REFER, MOVED_MIGR, BIND_PRINC
        00000000                            ; SP4_NONE
        00000001                            ; one nfs_impl_id4
        0000000a 6b65726e656c2e6f7267 0000  ; nii_domain, 'kernel.org'
        00000005 4c696e7578 000000          ; nii_name, 'Linux'
        ffffffffffffffff 00000007           ; nii_date: one second before 1970";
    let args = ExchangeIdArgs {
        clientowner: ClientOwner4 {
            verifier: Verifier4([0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]),
            ownerid: Bytes::from_static(b"Linux host"),
        },
        flags: exchgid::SUPP_MOVED_REFER | exchgid::SUPP_MOVED_MIGR | exchgid::BIND_PRINC_STATEID,
        state_protect: StateProtect4A::None,
        client_impl_id: Some(NfsImplId4 {
            domain: "kernel.org".into(),
            name: "Linux".into(),
            date: Nfstime4 {
                seconds: -1,
                nseconds: 7,
            },
        }),
    };
    check_op(ArgOp4::ExchangeId(args), golden);
}

#[test]
fn exchange_id_with_machine_credentials() {
    let golden = "
        0000002a                    ; OP_EXCHANGE_ID
        0000000000000000            ; co_verifier
        00000001 78 000000          ; co_ownerid, 'x'
        00000000                    ; eia_flags
        00000001                    ; SP4_MACH_CRED
        00000002 00000000 00000800  ; spo_must_enforce: 43, CREATE_SESSION
        00000001 00000010           ; spo_must_allow: 4, CLOSE
        00000000                    ; no nfs_impl_id4";
    let set = |op: Opnum| [u32::from(op)].into_iter().collect::<Bitmap4>();
    let args = ExchangeIdArgs {
        clientowner: ClientOwner4 {
            verifier: Verifier4::default(),
            ownerid: Bytes::from_static(b"x"),
        },
        flags: 0,
        state_protect: StateProtect4A::MachCred(StateProtectOps4 {
            must_enforce: set(Opnum::CreateSession),
            must_allow: set(Opnum::Close),
        }),
        client_impl_id: None,
    };
    check_op(ArgOp4::ExchangeId(args), golden);
}

#[test]
fn exchange_id_result() {
    let golden = "
        0000002a 00000000           ; OP_EXCHANGE_ID, NFS4_OK
        00000000000000aa            ; eir_clientid
        00000001                    ; eir_sequenceid
        80010000                    ; eir_flags: CONFIRMED_R, USE_NON_PNFS
        00000000                    ; SP4_NONE
        0000000000000009            ; so_minor_id
        00000003 737276 00          ; so_major_id, 'srv'
        00000005 73636f7065 000000  ; eir_server_scope, 'scope'
        00000000                    ; no nfs_impl_id4";
    let ok = ExchangeIdResOk {
        clientid: 0xaa,
        sequenceid: 1,
        flags: exchgid::CONFIRMED_R | exchgid::USE_NON_PNFS,
        state_protect: StateProtect4R::None,
        server_owner: ServerOwner4 {
            minor_id: 9,
            major_id: Bytes::from_static(b"srv"),
        },
        server_scope: Bytes::from_static(b"scope"),
        server_impl_id: None,
    };
    check_result(ResOp4::ExchangeId(Ok(ok)), golden);
}

#[test]
fn create_session() {
    let golden = "
        0000002b                    ; OP_CREATE_SESSION
        00000000000000aa 00000001   ; csa_clientid, csa_sequence
        00000003                    ; csa_flags: PERSIST, CONN_BACK_CHAN
        00000000 00100400 00100400 00001000 00000008 00000040 00000000
                                    ; csa_fore_chan_attrs, ca_rdma_ird absent
        00000000 00001000 00001000 00000000 00000002 00000010 00000001 00000005
                                    ; csa_back_chan_attrs, ca_rdma_ird present
        40000000                    ; csa_cb_program
        00000002                    ; two csa_sec_parms
        00000000                    ; AUTH_NONE
        00000001                    ; AUTH_SYS
        00000007                    ; stamp
        00000004 686f7374           ; machinename, 'host'
        00000000 00000000           ; uid, gid
        00000001 0000000a           ; gids";
    let fore = ChannelAttrs4 {
        headerpadsize: 0,
        maxrequestsize: 0x10_0400,
        maxresponsesize: 0x10_0400,
        maxresponsesize_cached: 0x1000,
        maxoperations: 8,
        maxrequests: 64,
        rdma_ird: None,
    };
    let back = ChannelAttrs4 {
        maxrequestsize: 0x1000,
        maxresponsesize: 0x1000,
        maxresponsesize_cached: 0,
        maxoperations: 2,
        maxrequests: 16,
        rdma_ird: Some(5),
        ..fore
    };
    let sys = AuthSys {
        stamp: 7,
        machinename: Bytes::from_static(b"host"),
        uid: 0,
        gid: 0,
        gids: Groups::first_of(&[10]),
    };
    let args = CreateSessionArgs {
        clientid: 0xaa,
        sequence: 1,
        flags: create_session::PERSIST | create_session::CONN_BACK_CHAN,
        fore_chan_attrs: fore,
        back_chan_attrs: back,
        cb_program: 0x4000_0000,
        sec_parms: vec![CallbackSecParms4::None, CallbackSecParms4::Sys(sys)],
    };
    check_op(ArgOp4::CreateSession(args), golden);
}

#[test]
fn sequence_and_its_result() {
    let args = SequenceArgs {
        sessionid: SESSION,
        sequenceid: 5,
        slotid: 2,
        highest_slotid: 3,
        cachethis: true,
    };
    check_op(
        ArgOp4::Sequence(args),
        "00000035                               ; OP_SEQUENCE
         30313233343536373839616263646566       ; sa_sessionid
         00000005 00000002 00000003 00000001    ; sequenceid, slotid, highest_slotid, cachethis",
    );
    let ok = SequenceResOk {
        sessionid: SESSION,
        sequenceid: 5,
        slotid: 2,
        highest_slotid: 63,
        target_highest_slotid: 31,
        status_flags: seq4_status::CB_PATH_DOWN | seq4_status::RESTART_RECLAIM_NEEDED,
    };
    check_result(
        ResOp4::Sequence(Ok(ok)),
        "00000035 00000000                      ; OP_SEQUENCE, NFS4_OK
         30313233343536373839616263646566       ; sr_sessionid
         00000005 00000002                      ; sr_sequenceid, sr_slotid
         0000003f 0000001f                      ; highest, target
         00000101                               ; sr_status_flags",
    );
    check_result(
        ResOp4::Sequence(Err(NfsStat4::SeqMisordered)),
        "00000035 0000274f                      ; OP_SEQUENCE, 10063",
    );
}

#[test]
fn open_that_creates() {
    let golden = "
        00000012                        ; OP_OPEN
        00000000                        ; seqid
        00000403 00000000               ; share_access: BOTH, WANT_NO_DELEG; share_deny
        0102030405060708                ; owner.clientid
        00000007 6f70656e206964 00      ; owner.owner, 'open id'
        00000001                        ; OPEN4_CREATE
        00000003                        ; EXCLUSIVE4_1
        0000000000000009                ; cva_verf
        00000002 00000000 00000002      ; cva_attrs: bit 33, mode
        00000004 000001a4               ; 0644
        00000000                        ; CLAIM_NULL
        00000004 66696c65               ; 'file'";
    let mode = Attributes4 {
        mode: Some(0o644),
        ..Attributes4::default()
    };
    let args = OpenArgs {
        seqid: 0,
        share_access: share::ACCESS_BOTH | share::WANT_NO_DELEG,
        share_deny: share::DENY_NONE,
        owner: owner(),
        openhow: OpenFlag4::Create(CreateHow4::Exclusive41(CreateVerfAttr {
            verf: Verifier4([0, 0, 0, 0, 0, 0, 0, 9]),
            attrs: mode.encode(&Attributes4::KNOWN),
        })),
        claim: OpenClaim4::Null("file".into()),
    };
    check_op(ArgOp4::Open(args), golden);
}

#[test]
fn open_by_handle() {
    let golden = "
        00000012                        ; OP_OPEN
        00000000 00000001 00000000      ; seqid, READ, DENY_NONE
        0102030405060708                ; owner.clientid
        00000007 6f70656e206964 00      ; owner.owner, 'open id'
        00000000                        ; OPEN4_NOCREATE
        00000004                        ; CLAIM_FH";
    let args = OpenArgs {
        seqid: 0,
        share_access: share::ACCESS_READ,
        share_deny: share::DENY_NONE,
        owner: owner(),
        openhow: OpenFlag4::NoCreate,
        claim: OpenClaim4::Fh,
    };
    check_op(ArgOp4::Open(args), golden);
}

#[test]
fn open_results() {
    let cinfo = ChangeInfo4 {
        atomic: true,
        before: 1,
        after: 2,
    };
    let common = "
        00000012 00000000                       ; OP_OPEN, NFS4_OK
        00000001 6162636465666768696a6b6c       ; stateid
        00000001 0000000000000001 0000000000000002  ; cinfo
        00000004                                ; rflags: LOCKTYPE_POSIX
        00000001 00000010                       ; attrset: bit 4, size";
    let ok = |delegation| {
        ResOp4::Open(Ok(OpenResOk {
            stateid: STATEID,
            cinfo,
            rflags: open_result::LOCKTYPE_POSIX,
            attrset: Bitmap4::of(&[Attr::Size]),
            delegation,
        }))
    };
    let check = |delegation, golden: &str| check_result(ok(delegation), &[common, golden].concat());
    check(OpenDelegation4::None, "\n00000000 ; OPEN_DELEGATE_NONE");
    check(
        OpenDelegation4::NoneExt(OpenNoneDelegation4::NotWanted),
        "\n00000003 00000000 ; OPEN_DELEGATE_NONE_EXT, WND4_NOT_WANTED",
    );
    check(
        OpenDelegation4::NoneExt(OpenNoneDelegation4::Resource(true)),
        "\n00000003 00000002 00000001 ; OPEN_DELEGATE_NONE_EXT, WND4_RESOURCE, will signal",
    );
    let permissions = Nfsace4 {
        acetype: 0,
        flag: 0,
        access_mask: 1,
        who: Utf8str::from("OWNER@"),
    };
    check(
        OpenDelegation4::Read(OpenReadDelegation4 {
            stateid: STATEID,
            recall: false,
            permissions: permissions.clone(),
        }),
        "\n00000001                             ; OPEN_DELEGATE_READ
        00000001 6162636465666768696a6b6c       ; stateid
        00000000                                ; recall
        00000000 00000000 00000001              ; type, flag, access_mask
        00000006 4f574e455240 0000              ; who",
    );
    check(
        OpenDelegation4::Write(OpenWriteDelegation4 {
            stateid: STATEID,
            recall: true,
            space_limit: NfsSpaceLimit4::Size(4096),
            permissions,
        }),
        "\n00000002                             ; OPEN_DELEGATE_WRITE
        00000001 6162636465666768696a6b6c       ; stateid
        00000001                                ; recall
        00000001 0000000000001000               ; NFS_LIMIT_SIZE
        00000000 00000000 00000001              ; type, flag, access_mask
        00000006 4f574e455240 0000              ; who",
    );
}

#[test]
fn readdir_and_its_result() {
    let args = ReaddirArgs {
        cookie: 3,
        cookieverf: Verifier4([1; 8]),
        dircount: 512,
        maxcount: 4096,
        attr_request: Bitmap4::of(&[Attr::Type, Attr::RdattrError, Attr::MountedOnFileid]),
    };
    check_op(
        ArgOp4::Readdir(args),
        "0000001a                       ; OP_READDIR
         0000000000000003               ; cookie
         0101010101010101               ; cookieverf
         00000200 00001000              ; dircount, maxcount
         00000002 00000802 00800000     ; bits 1, 11, 55",
    );
    let entry = |cookie, name: &str, fileid| Entry4 {
        cookie,
        name: name.into(),
        attrs: Attributes4 {
            fileid: Some(fileid),
            ..Attributes4::default()
        }
        .encode(&Attributes4::KNOWN),
    };
    let ok = ReaddirResOk {
        cookieverf: Verifier4([1; 8]),
        reply: DirList4 {
            entries: vec![entry(4, "a", 0x11), entry(5, "bcde", 0x12)],
            eof: true,
        },
    };
    check_result(
        ResOp4::Readdir(Ok(ok)),
        "0000001a 00000000              ; OP_READDIR, NFS4_OK
         0101010101010101               ; cookieverf
         00000001                       ; an entry follows
         0000000000000004               ; cookie
         00000001 61 000000             ; name
         00000001 00100000              ; bit 20, fileid
         00000008 0000000000000011      ; its value
         00000001                       ; an entry follows
         0000000000000005
         00000004 62636465
         00000001 00100000
         00000008 0000000000000012
         00000000 00000001              ; no entry follows, eof",
    );
}

#[test]
fn lock_of_a_new_owner() {
    let args = LockArgs {
        locktype: NfsLockType4::WriteW,
        reclaim: false,
        offset: 0,
        length: u64::MAX,
        locker: Locker4::OpenOwner(OpenToLockOwner4 {
            open_seqid: 0,
            open_stateid: STATEID,
            lock_seqid: 0,
            lock_owner: owner(),
        }),
    };
    check_op(
        ArgOp4::Lock(args),
        "0000000c                               ; OP_LOCK
         00000004 00000000                      ; WRITEW_LT, reclaim
         0000000000000000 ffffffffffffffff      ; offset, length
         00000001                               ; new_lock_owner
         00000000                               ; open_seqid
         00000001 6162636465666768696a6b6c      ; open_stateid
         00000000                               ; lock_seqid
         0102030405060708                       ; lock_owner.clientid
         00000007 6f70656e206964 00             ; lock_owner.owner",
    );
}

#[test]
fn lock_denied() {
    let denied = Lock4Denied {
        offset: 16,
        length: 32,
        locktype: NfsLockType4::Read,
        owner: owner(),
    };
    let body = "
        0000000000000010 0000000000000020   ; offset, length
        00000001                            ; READ_LT
        0102030405060708                    ; owner.clientid
        00000007 6f70656e206964 00          ; owner.owner";
    let with_body = |head: &str| [head, body].concat();
    check_result(
        ResOp4::Lock(LockRes::Denied(denied.clone())),
        &with_body("0000000c 0000271a ; OP_LOCK, 10010"),
    );
    check_result(
        ResOp4::Lockt(LocktRes::Denied(denied)),
        &with_body("0000000d 0000271a ; OP_LOCKT, 10010"),
    );
}

#[test]
fn write_and_read() {
    let args = WriteArgs {
        stateid: STATEID,
        offset: 8,
        stable: StableHow4::FileSync,
        data: Bytes::from_static(b"hello"),
    };
    check_op(
        ArgOp4::Write(args),
        "00000026                               ; OP_WRITE
         00000001 6162636465666768696a6b6c      ; stateid
         0000000000000008 00000002              ; offset, FILE_SYNC4
         00000005 68656c6c6f 000000             ; data",
    );
    let ok = ReadResOk {
        eof: true,
        data: Bytes::from_static(b"hello"),
    };
    check_result(
        ResOp4::Read(Ok(ok)),
        "00000019 00000000                      ; OP_READ, NFS4_OK
         00000001 00000005 68656c6c6f 000000    ; eof, data",
    );
}

#[test]
fn create_of_a_symbolic_link() {
    let args = CreateArgs {
        objtype: CreateType4::Lnk(Bytes::from_static(b"../x")),
        objname: "ln".into(),
        createattrs: Fattr4::default(),
    };
    check_op(
        ArgOp4::Create(args),
        "00000006                       ; OP_CREATE
         00000005 00000004 2e2e2f78     ; NF4LNK, linkdata
         00000002 6c6e 0000             ; objname
         00000000 00000000              ; no attributes",
    );
}

#[test]
fn setattr_and_its_result() {
    let attributes = Attributes4 {
        size: Some(0),
        time_modify_set: Some(attributes::Settime4::ClientTime(Nfstime4 {
            seconds: 1,
            nseconds: 2,
        })),
        time_access_set: Some(attributes::Settime4::ServerTime),
        ..Attributes4::default()
    };
    let args = SetattrArgs {
        stateid: STATEID,
        obj_attributes: attributes.encode(&Attributes4::KNOWN),
    };
    check_op(
        ArgOp4::Setattr(args),
        "00000022                               ; OP_SETATTR
         00000001 6162636465666768696a6b6c      ; stateid
         00000002 00000010 00410000             ; bits 4, 48, 54
         0000001c                               ; 28 bytes
         0000000000000000                       ; size
         00000000                               ; time_access_set: SET_TO_SERVER_TIME4
         00000001 0000000000000001 00000002     ; time_modify_set: SET_TO_CLIENT_TIME4",
    );
    let partly = SetattrRes {
        status: NfsStat4::Perm,
        attrsset: Bitmap4::of(&[Attr::Size]),
    };
    check_result(
        ResOp4::Setattr(partly),
        "00000022 00000001 00000001 00000010",
    );
    // A failure before execution must have the empty mask all the same.
    let failed = ResOp4::Failed(Opnum::Setattr.into(), NfsStat4::Delay);
    assert_eq!(encoded(&failed), bytes("00000022 00002718 00000000"));
}

#[test]
fn extended_attributes() {
    let args = SetxattrArgs {
        option: SetxattrOption4::Replace,
        key: "k".into(),
        value: Bytes::from_static(b"val"),
    };
    check_op(
        ArgOp4::Setxattr(args),
        "00000049 00000002              ; OP_SETXATTR, SETXATTR4_REPLACE
         00000001 6b 000000             ; sxa_key
         00000003 76616c 00             ; sxa_value",
    );
    let ok = ListxattrsResOk {
        cookie: 2,
        names: vec!["k".into(), "l".into()],
        eof: true,
    };
    check_result(
        ResOp4::Listxattrs(Ok(ok)),
        "0000004a 00000000              ; OP_LISTXATTRS, NFS4_OK
         0000000000000002               ; lxr_cookie
         00000002 00000001 6b 000000 00000001 6c 000000
         00000001                       ; lxr_eof",
    );
}

#[test]
fn secinfo_result() {
    let flavors = vec![
        Secinfo4::RpcsecGss(RpcsecGssInfo {
            oid: Bytes::from_static(&[0x2a, 0x86, 0x48]),
            qop: 0,
            service: RpcGssSvc::Privacy,
        }),
        Secinfo4::Flavor(1),
    ];
    check_result(
        ResOp4::SecinfoNoName(Ok(SecinfoResOk { flavors })),
        "00000034 00000000              ; OP_SECINFO_NO_NAME, NFS4_OK
         00000002                       ; two flavors
         00000006                       ; RPCSEC_GSS
         00000003 2a8648 00             ; oid
         00000000 00000003              ; qop, PRIVACY
         00000001                       ; AUTH_SYS",
    );
}

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
    assert_eq!(w.finish().into_contiguous(), bytes(reply));
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
