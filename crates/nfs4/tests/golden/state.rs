//! Stateids, OPEN and LOCK.

use super::{STATEID, bytes, check_op, check_result, encoded, owner};
use nfs4::*;

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
