//! Random callbacks and their results.

use super::basics::*;
use super::{fields, opaque};
use nfs4::callback::*;
use nfs4::{Fsid4, GetattrResOk};
use proptest::collection::vec;
use proptest::prelude::*;

/// Any callback that is decoded.
pub fn any_op() -> impl Strategy<Value = CbArgOp4> {
    let call = fields!(ReferringCall4 {
        sequenceid: any::<u32>(),
        slotid: any::<u32>()
    });
    let list = fields!(ReferringCallList4 {
        sessionid: sessionid(),
        referring_calls: vec(call, 0..4)
    });
    let file = fields!(LayoutrecallFile4 {
        fh: handle(),
        offset: any::<u64>(),
        length: any::<u64>(),
        stateid: stateid(),
    });
    let fsid = fields!(Fsid4 {
        major: any::<u64>(),
        minor: any::<u64>()
    });
    let recall = prop_oneof![
        file.prop_map(Layoutrecall4::File),
        fsid.prop_map(Layoutrecall4::Fsid),
        Just(Layoutrecall4::All),
    ];
    let change = fields!(Notify4 {
        mask: bitmap(),
        values: opaque(40)
    });
    prop_oneof![
        fields!(CbLayoutrecallArgs {
            layout_type: any::<u32>(),
            iomode: iomode(),
            changed: any::<bool>(),
            recall: recall,
        })
        .prop_map(CbArgOp4::Layoutrecall),
        fields!(CbNotifyDeviceidArgs {
            changes: vec(change, 0..3)
        })
        .prop_map(CbArgOp4::NotifyDeviceid),
        fields!(CbGetattrArgs {
            fh: handle(),
            attr_request: bitmap()
        })
        .prop_map(CbArgOp4::Getattr),
        fields!(CbRecallArgs {
            stateid: stateid(),
            truncate: any::<bool>(),
            fh: handle()
        })
        .prop_map(CbArgOp4::Recall),
        fields!(CbRecallAnyArgs {
            objects_to_keep: any::<u32>(),
            type_mask: bitmap()
        })
        .prop_map(CbArgOp4::RecallAny),
        fields!(CbRecallSlotArgs {
            target_highest_slotid: any::<u32>()
        })
        .prop_map(CbArgOp4::RecallSlot),
        fields!(CbSequenceArgs {
            sessionid: sessionid(),
            sequenceid: any::<u32>(),
            slotid: any::<u32>(),
            highest_slotid: any::<u32>(),
            cachethis: any::<bool>(),
            referring_call_lists: vec(list, 0..3),
        })
        .prop_map(CbArgOp4::Sequence),
        fields!(CbNotifyLockArgs {
            fh: handle(),
            lock_owner: owner()
        })
        .prop_map(CbArgOp4::NotifyLock),
    ]
}

/// Any result of a callback whose encoding decodes to the same value.
pub fn any_result() -> impl Strategy<Value = CbResOp4> {
    prop_oneof![
        fields!(GetattrResOk {
            obj_attributes: fattr()
        })
        .prop_map(|ok| CbResOp4::Getattr(Ok(ok))),
        failure().prop_map(|status| CbResOp4::Getattr(Err(status))),
        status().prop_map(CbResOp4::Recall),
        status().prop_map(CbResOp4::RecallAny),
        status().prop_map(CbResOp4::RecallSlot),
        fields!(CbSequenceResOk {
            sessionid: sessionid(),
            sequenceid: any::<u32>(),
            slotid: any::<u32>(),
            highest_slotid: any::<u32>(),
            target_highest_slotid: any::<u32>(),
        })
        .prop_map(|ok| CbResOp4::Sequence(Ok(ok))),
        failure().prop_map(|status| CbResOp4::Sequence(Err(status))),
        status().prop_map(CbResOp4::NotifyLock),
        status().prop_map(CbResOp4::Layoutrecall),
        status().prop_map(CbResOp4::NotifyDeviceid),
        failure().prop_map(|status| CbResOp4::Failed(CbOpnum::Notify.into(), status)),
    ]
}
