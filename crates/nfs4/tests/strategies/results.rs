//! Random results of every operation: successes by group, failures for all.

use super::basics::*;
use super::{fields, one_of, opaque};
use nfs4::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Any result whose encoding decodes to the same value.
pub fn any_result() -> impl Strategy<Value = ResOp4> {
    prop_oneof![
        1 => statuses(),
        1 => failures(),
        1 => objects(),
        1 => names(),
        1 => data(),
        1 => opens(),
        1 => locks(),
        1 => clients(),
        1 => sessions(),
        1 => extended_attributes(),
        1 => super::layouts::any_result(),
    ]
}

/// Operations whose result is only a status.
fn statuses() -> BoxedStrategy<ResOp4> {
    const WITHOUT_BODY: &[fn(NfsStat4) -> ResOp4] = &[
        ResOp4::Delegpurge,
        ResOp4::Delegreturn,
        ResOp4::Lookup,
        ResOp4::Lookupp,
        ResOp4::Nverify,
        ResOp4::Openattr,
        ResOp4::Putfh,
        ResOp4::Putpubfh,
        ResOp4::Putrootfh,
        ResOp4::Restorefh,
        ResOp4::Savefh,
        ResOp4::Verify,
        ResOp4::BackchannelCtl,
        ResOp4::DestroySession,
        ResOp4::FreeStateid,
        ResOp4::DestroyClientid,
        ResOp4::ReclaimComplete,
        ResOp4::Allocate,
        ResOp4::Deallocate,
        ResOp4::Clone,
    ];
    (0..WITHOUT_BODY.len(), status())
        .prop_map(|(op, status)| WITHOUT_BODY[op](status))
        .boxed()
}

/// Operations that have a body when they succeed, failing.
fn failures() -> BoxedStrategy<ResOp4> {
    const WITH_BODY: &[fn(NfsStat4) -> ResOp4] = &[
        |status| ResOp4::Access(Err(status)),
        |status| ResOp4::Close(Err(status)),
        |status| ResOp4::Commit(Err(status)),
        |status| ResOp4::Create(Err(status)),
        |status| ResOp4::Getattr(Err(status)),
        |status| ResOp4::Getfh(Err(status)),
        |status| ResOp4::Link(Err(status)),
        |status| ResOp4::Locku(Err(status)),
        |status| ResOp4::Open(Err(status)),
        |status| ResOp4::OpenDowngrade(Err(status)),
        |status| ResOp4::Read(Err(status)),
        |status| ResOp4::Readdir(Err(status)),
        |status| ResOp4::Readlink(Err(status)),
        |status| ResOp4::Remove(Err(status)),
        |status| ResOp4::Rename(Err(status)),
        |status| ResOp4::Secinfo(Err(status)),
        |status| ResOp4::Write(Err(status)),
        |status| ResOp4::BindConnToSession(Err(status)),
        |status| ResOp4::ExchangeId(Err(status)),
        |status| ResOp4::CreateSession(Err(status)),
        |status| ResOp4::GetDirDelegation(Err(status)),
        |status| ResOp4::SecinfoNoName(Err(status)),
        |status| ResOp4::Sequence(Err(status)),
        |status| ResOp4::SetSsv(Err(status)),
        |status| ResOp4::TestStateid(Err(status)),
        |status| ResOp4::WantDelegation(Err(status)),
        |status| ResOp4::IoAdvise(Err(status)),
        |status| ResOp4::Seek(Err(status)),
        |status| ResOp4::Getxattr(Err(status)),
        |status| ResOp4::Setxattr(Err(status)),
        |status| ResOp4::Listxattrs(Err(status)),
        |status| ResOp4::Removexattr(Err(status)),
        |status| ResOp4::Failed(Opnum::Layoutstats.into(), status),
        |status| ResOp4::Failed(Opnum::Illegal.into(), status),
    ];
    (0..WITH_BODY.len(), failure())
        .prop_map(|(op, status)| WITH_BODY[op](status))
        .boxed()
}

fn objects() -> BoxedStrategy<ResOp4> {
    prop_oneof![
        fields!(AccessResOk {
            supported: any::<u32>(),
            access: any::<u32>()
        })
        .prop_map(|ok| ResOp4::Access(Ok(ok))),
        fields!(GetattrResOk {
            obj_attributes: fattr()
        })
        .prop_map(|ok| ResOp4::Getattr(Ok(ok))),
        fields!(GetfhResOk { object: handle() }).prop_map(|ok| ResOp4::Getfh(Ok(ok))),
        fields!(SetattrRes {
            status: status(),
            attrsset: bitmap()
        })
        .prop_map(ResOp4::Setattr),
    ]
    .boxed()
}

fn names() -> BoxedStrategy<ResOp4> {
    let entry = fields!(Entry4 {
        cookie: any::<u64>(),
        name: name(),
        attrs: fattr()
    });
    let list = fields!(DirList4 {
        entries: vec(entry, 0..4),
        encoded: Just(xdr::Rope::default()),
        eof: any::<bool>()
    });
    prop_oneof![
        fields!(CreateResOk {
            cinfo: change_info(),
            attrset: bitmap()
        })
        .prop_map(|ok| ResOp4::Create(Ok(ok))),
        fields!(LinkResOk {
            cinfo: change_info()
        })
        .prop_map(|ok| ResOp4::Link(Ok(ok))),
        fields!(RemoveResOk {
            cinfo: change_info()
        })
        .prop_map(|ok| ResOp4::Remove(Ok(ok))),
        fields!(RenameResOk {
            source_cinfo: change_info(),
            target_cinfo: change_info()
        })
        .prop_map(|ok| ResOp4::Rename(Ok(ok))),
        fields!(ReadlinkResOk { link: opaque(300) }).prop_map(|ok| ResOp4::Readlink(Ok(ok))),
        fields!(ReaddirResOk {
            cookieverf: verifier(),
            reply: list
        })
        .prop_map(|ok| ResOp4::Readdir(Ok(ok))),
        secinfo().prop_map(|ok| ResOp4::Secinfo(Ok(ok))),
        secinfo().prop_map(|ok| ResOp4::SecinfoNoName(Ok(ok))),
    ]
    .boxed()
}

fn secinfo() -> impl Strategy<Value = SecinfoResOk> {
    let gss = fields!(RpcsecGssInfo {
        oid: opaque(OID_MAX),
        qop: any::<u32>(),
        service: service()
    });
    let flavor = prop_oneof![
        (0u32..6).prop_map(Secinfo4::Flavor),
        gss.prop_map(Secinfo4::RpcsecGss),
    ];
    fields!(SecinfoResOk {
        flavors: vec(flavor, 0..4)
    })
}

fn data() -> BoxedStrategy<ResOp4> {
    prop_oneof![
        fields!(ReadResOk {
            eof: any::<bool>(),
            data: opaque(2 * xdr::PAYLOAD_MIN)
        })
        .prop_map(|ok| ResOp4::Read(Ok(ok))),
        fields!(WriteResOk {
            count: any::<u32>(),
            committed: one_of(StableHow4::ALL),
            writeverf: verifier(),
        })
        .prop_map(|ok| ResOp4::Write(Ok(ok))),
        fields!(CommitResOk {
            writeverf: verifier()
        })
        .prop_map(|ok| ResOp4::Commit(Ok(ok))),
        fields!(IoAdviseResOk { hints: bitmap() }).prop_map(|ok| ResOp4::IoAdvise(Ok(ok))),
        fields!(SeekResOk {
            eof: any::<bool>(),
            offset: any::<u64>()
        })
        .prop_map(|ok| ResOp4::Seek(Ok(ok))),
    ]
    .boxed()
}

fn opens() -> BoxedStrategy<ResOp4> {
    let granted = fields!(DirDelegation {
        cookieverf: verifier(),
        stateid: stateid(),
        notification: bitmap(),
        child_attributes: bitmap(),
        dir_attributes: bitmap(),
    });
    let directory = prop_oneof![
        granted.prop_map(GetDirDelegationResOk::Granted),
        any::<bool>().prop_map(GetDirDelegationResOk::Unavailable),
    ];
    prop_oneof![
        fields!(OpenResOk {
            stateid: stateid(),
            cinfo: change_info(),
            rflags: any::<u32>(),
            attrset: bitmap(),
            delegation: delegation(),
        })
        .prop_map(|ok| ResOp4::Open(Ok(ok))),
        fields!(CloseResOk {
            open_stateid: stateid()
        })
        .prop_map(|ok| ResOp4::Close(Ok(ok))),
        fields!(OpenDowngradeResOk {
            open_stateid: stateid()
        })
        .prop_map(|ok| ResOp4::OpenDowngrade(Ok(ok))),
        fields!(TestStateidResOk {
            status_codes: vec(one_of(NfsStat4::ALL), 0..5)
        })
        .prop_map(|ok| ResOp4::TestStateid(Ok(ok))),
        delegation().prop_map(|ok| ResOp4::WantDelegation(Ok(ok))),
        directory.prop_map(|ok| ResOp4::GetDirDelegation(Ok(ok))),
    ]
    .boxed()
}

fn locks() -> BoxedStrategy<ResOp4> {
    let denied = || {
        fields!(Lock4Denied {
            offset: any::<u64>(),
            length: any::<u64>(),
            locktype: one_of(NfsLockType4::ALL),
            owner: owner(),
        })
    };
    let other_failure =
        || failure().prop_filter("a denial has a body", |&status| status != NfsStat4::Denied);
    prop_oneof![
        fields!(LockResOk {
            lock_stateid: stateid()
        })
        .prop_map(|ok| ResOp4::Lock(LockRes::Ok(ok))),
        denied().prop_map(|denied| ResOp4::Lock(LockRes::Denied(denied))),
        other_failure().prop_map(|status| ResOp4::Lock(LockRes::Err(status))),
        Just(ResOp4::Lockt(LocktRes::Ok)),
        denied().prop_map(|denied| ResOp4::Lockt(LocktRes::Denied(denied))),
        other_failure().prop_map(|status| ResOp4::Lockt(LocktRes::Err(status))),
        fields!(LockuResOk {
            lock_stateid: stateid()
        })
        .prop_map(|ok| ResOp4::Locku(Ok(ok))),
    ]
    .boxed()
}

fn clients() -> BoxedStrategy<ResOp4> {
    let protection = prop_oneof![
        Just(StateProtect4R::None),
        protected_ops().prop_map(StateProtect4R::MachCred),
        fields!(SsvProtInfo4 {
            ops: protected_ops(),
            hash_alg: any::<u32>(),
            encr_alg: any::<u32>(),
            ssv_len: any::<u32>(),
            window: any::<u32>(),
            handles: vec(opaque(40).prop_map(GssHandle4), 0..3),
        })
        .prop_map(StateProtect4R::Ssv),
    ];
    let server_owner = fields!(ServerOwner4 {
        minor_id: any::<u64>(),
        major_id: opaque(OPAQUE_LIMIT)
    });
    prop_oneof![
        fields!(ExchangeIdResOk {
            clientid: any::<u64>(),
            sequenceid: any::<u32>(),
            flags: any::<u32>(),
            state_protect: protection,
            server_owner: server_owner,
            server_scope: opaque(OPAQUE_LIMIT),
            server_impl_id: option::of(implementation()),
        })
        .prop_map(|ok| ResOp4::ExchangeId(Ok(ok))),
        fields!(SetSsvResOk { digest: opaque(40) }).prop_map(|ok| ResOp4::SetSsv(Ok(ok))),
    ]
    .boxed()
}

fn sessions() -> BoxedStrategy<ResOp4> {
    prop_oneof![
        fields!(CreateSessionResOk {
            sessionid: sessionid(),
            sequence: any::<u32>(),
            flags: any::<u32>(),
            fore_chan_attrs: channel(),
            back_chan_attrs: channel(),
        })
        .prop_map(|ok| ResOp4::CreateSession(Ok(ok))),
        fields!(BindConnToSessionResOk {
            sessid: sessionid(),
            dir: one_of(ChannelDirFromServer4::ALL),
            use_conn_in_rdma_mode: any::<bool>(),
        })
        .prop_map(|ok| ResOp4::BindConnToSession(Ok(ok))),
        fields!(SequenceResOk {
            sessionid: sessionid(),
            sequenceid: any::<u32>(),
            slotid: any::<u32>(),
            highest_slotid: any::<u32>(),
            target_highest_slotid: any::<u32>(),
            status_flags: any::<u32>(),
        })
        .prop_map(|ok| ResOp4::Sequence(Ok(ok))),
    ]
    .boxed()
}

fn extended_attributes() -> BoxedStrategy<ResOp4> {
    prop_oneof![
        fields!(GetxattrResOk { value: opaque(100) }).prop_map(|ok| ResOp4::Getxattr(Ok(ok))),
        fields!(SetxattrResOk {
            info: change_info()
        })
        .prop_map(|ok| ResOp4::Setxattr(Ok(ok))),
        fields!(ListxattrsResOk {
            cookie: any::<u64>(),
            names: vec(name(), 0..4),
            eof: any::<bool>(),
        })
        .prop_map(|ok| ResOp4::Listxattrs(Ok(ok))),
        fields!(RemovexattrResOk {
            info: change_info()
        })
        .prop_map(|ok| ResOp4::Removexattr(Ok(ok))),
    ]
    .boxed()
}
