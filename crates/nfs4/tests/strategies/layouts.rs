//! Random layouts: operations, their results, and bodies.

use super::basics::*;
use super::{fields, opaque};
use nfs4::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Any operation on layouts and devices.
pub fn any_op() -> BoxedStrategy<ArgOp4> {
    let file = fields!(LayoutreturnFile4 {
        offset: any::<u64>(),
        length: any::<u64>(),
        stateid: stateid(),
        body: opaque(40),
    });
    let which = prop_oneof![
        file.prop_map(Layoutreturn4::File),
        Just(Layoutreturn4::Fsid),
        Just(Layoutreturn4::All),
    ];
    let update = fields!(Layoutupdate4 {
        layout_type: any::<u32>(),
        body: opaque(40)
    });
    prop_oneof![
        fields!(GetdeviceinfoArgs {
            device_id: deviceid(),
            layout_type: any::<u32>(),
            maxcount: any::<u32>(),
            notify_types: bitmap(),
        })
        .prop_map(ArgOp4::Getdeviceinfo),
        fields!(GetdevicelistArgs {
            layout_type: any::<u32>(),
            maxdevices: any::<u32>(),
            cookie: any::<u64>(),
            cookieverf: verifier(),
        })
        .prop_map(ArgOp4::Getdevicelist),
        fields!(LayoutcommitArgs {
            offset: any::<u64>(),
            length: any::<u64>(),
            reclaim: any::<bool>(),
            stateid: stateid(),
            last_write_offset: option::of(any::<u64>()),
            time_modify: option::of(time()),
            layoutupdate: update,
        })
        .prop_map(ArgOp4::Layoutcommit),
        fields!(LayoutgetArgs {
            signal_layout_avail: any::<bool>(),
            layout_type: any::<u32>(),
            iomode: iomode(),
            offset: any::<u64>(),
            length: any::<u64>(),
            minlength: any::<u64>(),
            stateid: stateid(),
            maxcount: any::<u32>(),
        })
        .prop_map(ArgOp4::Layoutget),
        fields!(LayoutreturnArgs {
            reclaim: any::<bool>(),
            layout_type: any::<u32>(),
            iomode: iomode(),
            which: which,
        })
        .prop_map(ArgOp4::Layoutreturn),
    ]
    .boxed()
}

/// Any of their results whose encoding decodes to the same value.
pub fn any_result() -> BoxedStrategy<ResOp4> {
    let address = fields!(DeviceAddr4 {
        layout_type: any::<u32>(),
        body: opaque(100)
    });
    let content = fields!(LayoutContent4 {
        layout_type: any::<u32>(),
        body: opaque(100)
    });
    let layout = fields!(Layout4 {
        offset: any::<u64>(),
        length: any::<u64>(),
        iomode: iomode(),
        content: content,
    });
    let other = |but| failure().prop_filter("has a body", move |status| *status != but);
    prop_oneof![
        fields!(GetdeviceinfoResOk {
            device_addr: address,
            notification: bitmap()
        })
        .prop_map(|ok| ResOp4::Getdeviceinfo(GetdeviceinfoRes::Ok(ok))),
        any::<u32>().prop_map(|count| ResOp4::Getdeviceinfo(GetdeviceinfoRes::TooSmall(count))),
        other(NfsStat4::TooSmall)
            .prop_map(|status| ResOp4::Getdeviceinfo(GetdeviceinfoRes::Err(status))),
        fields!(GetdevicelistResOk {
            cookie: any::<u64>(),
            cookieverf: verifier(),
            deviceid_list: vec(deviceid(), 0..4),
            eof: any::<bool>(),
        })
        .prop_map(|ok| ResOp4::Getdevicelist(Ok(ok))),
        failure().prop_map(|status| ResOp4::Getdevicelist(Err(status))),
        fields!(LayoutcommitResOk {
            newsize: option::of(any::<u64>())
        })
        .prop_map(|ok| ResOp4::Layoutcommit(Ok(ok))),
        failure().prop_map(|status| ResOp4::Layoutcommit(Err(status))),
        fields!(LayoutgetResOk {
            return_on_close: any::<bool>(),
            stateid: stateid(),
            layouts: vec(layout, 0..3),
        })
        .prop_map(|ok| ResOp4::Layoutget(LayoutgetRes::Ok(ok))),
        any::<bool>().prop_map(|signal| ResOp4::Layoutget(LayoutgetRes::TryLater(signal))),
        other(NfsStat4::LayoutTryLater)
            .prop_map(|status| ResOp4::Layoutget(LayoutgetRes::Err(status))),
        fields!(LayoutreturnResOk {
            stateid: option::of(stateid())
        })
        .prop_map(|ok| ResOp4::Layoutreturn(Ok(ok))),
        failure().prop_map(|status| ResOp4::Layoutreturn(Err(status))),
    ]
    .boxed()
}

/// The body of a layout of files.
pub fn file_layout() -> impl Strategy<Value = FileLayout4> {
    fields!(FileLayout4 {
        deviceid: deviceid(),
        util: any::<u32>(),
        first_stripe_index: any::<u32>(),
        pattern_offset: any::<u64>(),
        fh_list: vec(handle(), 0..4),
    })
}

/// The body of a device of such layouts.
pub fn data_servers() -> impl Strategy<Value = FileLayoutDsAddr4> {
    let address = fields!(Netaddr4 {
        netid: text(),
        addr: text()
    });
    let server = vec(address, 0..3).prop_map(MultipathList4);
    fields!(FileLayoutDsAddr4 {
        stripe_indices: vec(any::<u32>(), 0..6),
        multipath_ds_list: vec(server, 0..4),
    })
}
