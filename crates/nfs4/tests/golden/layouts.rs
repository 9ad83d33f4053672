//! Layouts and devices.

use super::{STATEID, bytes, check_op, check_result, encoded};
use bytes::Bytes;
use nfs4::callback::{
    CbArgOp4, CbLayoutrecallArgs, CbNotifyDeviceidArgs, Layoutrecall4, LayoutrecallFile4, Notify4,
    NotifyDeviceidDelete4, NotifyDeviceidType4,
};
use nfs4::*;
use xdr::Reader;

const DEVICE: Deviceid4 = Deviceid4(*b"device of a pool");

#[test]
fn layoutget_and_its_results() {
    let args = LayoutgetArgs {
        signal_layout_avail: false,
        layout_type: layout_type::NFSV4_1_FILES,
        iomode: LayoutIomode4::ReadWrite,
        offset: 0,
        length: u64::MAX,
        minlength: 4096,
        stateid: STATEID,
        maxcount: 4096,
    };
    check_op(
        ArgOp4::Layoutget(args),
        "00000032                               ; OP_LAYOUTGET
         00000000 00000001 00000002             ; signal, LAYOUT4_NFSV4_1_FILES, LAYOUTIOMODE4_RW
         0000000000000000 ffffffffffffffff      ; offset, length
         0000000000001000                       ; minlength
         00000001 6162636465666768696a6b6c      ; stateid
         00001000                               ; maxcount",
    );
    let layout = FileLayout4 {
        deviceid: DEVICE,
        util: 1 << 20,
        first_stripe_index: 2,
        pattern_offset: 0,
        fh_list: vec![NfsFh4(Bytes::from_static(b"handle"))],
    };
    let ok = LayoutgetResOk {
        return_on_close: true,
        stateid: STATEID,
        layouts: vec![Layout4 {
            offset: 0,
            length: u64::MAX,
            iomode: LayoutIomode4::Read,
            content: LayoutContent4 {
                layout_type: layout_type::NFSV4_1_FILES,
                body: encoded(&layout),
            },
        }],
    };
    check_result(
        ResOp4::Layoutget(LayoutgetRes::Ok(ok)),
        "00000032 00000000                      ; OP_LAYOUTGET, NFS4_OK
         00000001                               ; return_on_close
         00000001 6162636465666768696a6b6c      ; stateid
         00000001                               ; one layout
         0000000000000000 ffffffffffffffff      ; offset, length
         00000001                               ; LAYOUTIOMODE4_READ
         00000001 00000030                      ; LAYOUT4_NFSV4_1_FILES, bytes of the body
         646576696365206f66206120706f6f6c       ; nfl_deviceid
         00100000 00000002                      ; nfl_util, nfl_first_stripe_index
         0000000000000000                       ; nfl_pattern_offset
         00000001 00000006 68616e646c65 0000    ; nfl_fh_list",
    );
    check_result(
        ResOp4::Layoutget(LayoutgetRes::TryLater(true)),
        "00000032 0000274a 00000001             ; OP_LAYOUTGET, 10058, will be called",
    );
}

#[test]
fn getdeviceinfo_and_its_results() {
    let args = GetdeviceinfoArgs {
        device_id: DEVICE,
        layout_type: layout_type::NFSV4_1_FILES,
        maxcount: 4096,
        notify_types: [1, 2].into_iter().collect(),
    };
    check_op(
        ArgOp4::Getdeviceinfo(args),
        "0000002f                               ; OP_GETDEVICEINFO
         646576696365206f66206120706f6f6c       ; device_id
         00000001 00001000                      ; LAYOUT4_NFSV4_1_FILES, maxcount
         00000001 00000006                      ; CHANGE and DELETE",
    );
    let address = FileLayoutDsAddr4 {
        stripe_indices: vec![0, 1],
        multipath_ds_list: vec![
            MultipathList4(vec![
                "192.0.2.1:2049"
                    .parse::<std::net::SocketAddr>()
                    .unwrap()
                    .into(),
            ]),
            MultipathList4(vec![]),
        ],
    };
    let ok = GetdeviceinfoResOk {
        device_addr: DeviceAddr4 {
            layout_type: layout_type::NFSV4_1_FILES,
            body: encoded(&address),
        },
        notification: Bitmap4::EMPTY,
    };
    check_result(
        ResOp4::Getdeviceinfo(GetdeviceinfoRes::Ok(ok)),
        "0000002f 00000000                      ; OP_GETDEVICEINFO, NFS4_OK
         00000001 00000034                      ; LAYOUT4_NFSV4_1_FILES, bytes of the body
         00000002 00000000 00000001             ; nflda_stripe_indices
         00000002                               ; nflda_multipath_ds_list
         00000001 00000003 746370 00            ; one address, 'tcp'
         0000000d 3139322e302e322e312e382e31 000000 ; '192.0.2.1.8.1'
         00000000                               ; no address
         00000000                               ; of nothing it will be told",
    );
    check_result(
        ResOp4::Getdeviceinfo(GetdeviceinfoRes::TooSmall(60)),
        "0000002f 00002715 0000003c             ; OP_GETDEVICEINFO, 10005, bytes needed",
    );
}

#[test]
fn commit_and_return() {
    let commit = LayoutcommitArgs {
        offset: 0,
        length: 10,
        reclaim: false,
        stateid: STATEID,
        last_write_offset: Some(9),
        time_modify: None,
        layoutupdate: Layoutupdate4 {
            layout_type: layout_type::NFSV4_1_FILES,
            body: Bytes::new(),
        },
    };
    check_op(
        ArgOp4::Layoutcommit(commit),
        "00000031                               ; OP_LAYOUTCOMMIT
         0000000000000000 000000000000000a      ; offset, length
         00000000                               ; reclaim
         00000001 6162636465666768696a6b6c      ; stateid
         00000001 0000000000000009              ; last_write_offset
         00000000                               ; no time
         00000001 00000000                      ; LAYOUT4_NFSV4_1_FILES, no body",
    );
    check_result(
        ResOp4::Layoutcommit(Ok(LayoutcommitResOk { newsize: Some(10) })),
        "00000031 00000000 00000001 000000000000000a",
    );
    let file = LayoutreturnFile4 {
        offset: 0,
        length: u64::MAX,
        stateid: STATEID,
        body: Bytes::new(),
    };
    let giving = |which| {
        ArgOp4::Layoutreturn(LayoutreturnArgs {
            reclaim: false,
            layout_type: layout_type::NFSV4_1_FILES,
            iomode: LayoutIomode4::Any,
            which,
        })
    };
    check_op(
        giving(Layoutreturn4::File(file)),
        "00000033 00000000                      ; OP_LAYOUTRETURN, reclaim
         00000001 00000003 00000001             ; FILES, ANY, LAYOUTRETURN4_FILE
         0000000000000000 ffffffffffffffff      ; offset, length
         00000001 6162636465666768696a6b6c      ; stateid
         00000000                               ; no body",
    );
    check_op(
        giving(Layoutreturn4::All),
        "00000033 00000000 00000001 00000003 00000003",
    );
    check_result(
        ResOp4::Layoutreturn(Ok(LayoutreturnResOk { stateid: None })),
        "00000033 00000000 00000000             ; OP_LAYOUTRETURN, NFS4_OK, no stateid",
    );
}

#[test]
fn callbacks() {
    let check = |op: CbArgOp4, golden: &str| {
        let golden = bytes(golden);
        assert_eq!(encoded(&op), golden);
        let mut r = Reader::new(golden);
        assert_eq!(CbArgOp4::decode_op(&mut r), Ok(op));
        assert_eq!(r.finish(), Ok(()));
    };
    let file = LayoutrecallFile4 {
        fh: NfsFh4(Bytes::from_static(b"file")),
        offset: 0,
        length: u64::MAX,
        stateid: STATEID,
    };
    check(
        CbArgOp4::Layoutrecall(CbLayoutrecallArgs {
            layout_type: layout_type::NFSV4_1_FILES,
            iomode: LayoutIomode4::Any,
            changed: false,
            recall: Layoutrecall4::File(file),
        }),
        "00000005                               ; OP_CB_LAYOUTRECALL
         00000001 00000003 00000000             ; FILES, ANY, changed
         00000001 00000004 66696c65             ; LAYOUTRECALL4_FILE, fh
         0000000000000000 ffffffffffffffff      ; offset, length
         00000001 6162636465666768696a6b6c      ; stateid",
    );
    let deletion = NotifyDeviceidDelete4 {
        layout_type: layout_type::NFSV4_1_FILES,
        deviceid: DEVICE,
    };
    check(
        CbArgOp4::NotifyDeviceid(CbNotifyDeviceidArgs {
            changes: vec![Notify4 {
                mask: [u32::from(NotifyDeviceidType4::Delete)]
                    .into_iter()
                    .collect(),
                values: encoded(&deletion),
            }],
        }),
        "0000000e 00000001                      ; OP_CB_NOTIFY_DEVICEID, one
         00000001 00000004                      ; DELETE
         00000014 00000001                      ; bytes; LAYOUT4_NFSV4_1_FILES
         646576696365206f66206120706f6f6c       ; ndd_deviceid",
    );
}
