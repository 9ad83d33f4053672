//! EXCHANGE_ID, CREATE_SESSION, SEQUENCE.

use super::{SESSION, check_op, check_result};
use bytes::Bytes;
use nfs4::*;
use oncrpc::{AuthSys, Groups};

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
