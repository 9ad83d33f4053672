//! READDIR, READ, WRITE, CREATE, SETATTR, extended attributes and SECINFO.

use super::{STATEID, bytes, check_op, check_result, encoded};
use bytes::Bytes;
use nfs4::*;

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
            ..DirList4::default()
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
