//! Random arguments of every operation, one function for each group.

use super::basics::*;
use super::{fields, one_of, opaque};
use nfs4::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Any operation that is decoded.
pub fn any_op() -> impl Strategy<Value = ArgOp4> {
    prop_oneof![
        plain(),
        objects(),
        names(),
        data(),
        opens(),
        locks(),
        delegations(),
        clients(),
        sessions(),
        extended_attributes(),
        super::layouts::any_op(),
    ]
}

fn plain() -> BoxedStrategy<ArgOp4> {
    prop_oneof![
        Just(ArgOp4::Getfh),
        Just(ArgOp4::Lookupp),
        Just(ArgOp4::Putpubfh),
        Just(ArgOp4::Putrootfh),
        Just(ArgOp4::Readlink),
        Just(ArgOp4::Restorefh),
        Just(ArgOp4::Savefh),
    ]
    .boxed()
}

fn objects() -> BoxedStrategy<ArgOp4> {
    prop_oneof![
        fields!(PutfhArgs { object: handle() }).prop_map(ArgOp4::Putfh),
        fields!(AccessArgs {
            access: any::<u32>()
        })
        .prop_map(ArgOp4::Access),
        fields!(GetattrArgs {
            attr_request: bitmap()
        })
        .prop_map(ArgOp4::Getattr),
        fields!(SetattrArgs {
            stateid: stateid(),
            obj_attributes: fattr()
        })
        .prop_map(ArgOp4::Setattr),
        fields!(VerifyArgs {
            obj_attributes: fattr()
        })
        .prop_map(ArgOp4::Verify),
        fields!(NverifyArgs {
            obj_attributes: fattr()
        })
        .prop_map(ArgOp4::Nverify),
        fields!(OpenattrArgs {
            createdir: any::<bool>()
        })
        .prop_map(ArgOp4::Openattr),
    ]
    .boxed()
}

fn names() -> BoxedStrategy<ArgOp4> {
    let device = || {
        fields!(Specdata4 {
            specdata1: any::<u32>(),
            specdata2: any::<u32>()
        })
    };
    let objtype = prop_oneof![
        Just(CreateType4::Reg),
        Just(CreateType4::Dir),
        device().prop_map(CreateType4::Blk),
        device().prop_map(CreateType4::Chr),
        opaque(300).prop_map(CreateType4::Lnk),
        Just(CreateType4::Sock),
        Just(CreateType4::Fifo),
        Just(CreateType4::AttrDir),
        Just(CreateType4::NamedAttr),
    ];
    prop_oneof![
        fields!(LookupArgs { objname: name() }).prop_map(ArgOp4::Lookup),
        fields!(CreateArgs {
            objtype: objtype,
            objname: name(),
            createattrs: fattr()
        })
        .prop_map(ArgOp4::Create),
        fields!(LinkArgs { newname: name() }).prop_map(ArgOp4::Link),
        fields!(RemoveArgs { target: name() }).prop_map(ArgOp4::Remove),
        fields!(RenameArgs {
            oldname: name(),
            newname: name()
        })
        .prop_map(ArgOp4::Rename),
        fields!(ReaddirArgs {
            cookie: any::<u64>(),
            cookieverf: verifier(),
            dircount: any::<u32>(),
            maxcount: any::<u32>(),
            attr_request: bitmap(),
        })
        .prop_map(ArgOp4::Readdir),
        fields!(SecinfoArgs { name: name() }).prop_map(ArgOp4::Secinfo),
        fields!(SecinfoNoNameArgs {
            style: one_of(SecinfoStyle4::ALL)
        })
        .prop_map(ArgOp4::SecinfoNoName),
    ]
    .boxed()
}

fn data() -> BoxedStrategy<ArgOp4> {
    prop_oneof![
        fields!(ReadArgs {
            stateid: stateid(),
            offset: any::<u64>(),
            count: any::<u32>()
        })
        .prop_map(ArgOp4::Read),
        fields!(WriteArgs {
            stateid: stateid(),
            offset: any::<u64>(),
            stable: one_of(StableHow4::ALL),
            data: opaque(2 * xdr::PAYLOAD_MIN),
        })
        .prop_map(ArgOp4::Write),
        fields!(CommitArgs {
            offset: any::<u64>(),
            count: any::<u32>()
        })
        .prop_map(ArgOp4::Commit),
        fields!(AllocateArgs {
            stateid: stateid(),
            offset: any::<u64>(),
            length: any::<u64>()
        })
        .prop_map(ArgOp4::Allocate),
        fields!(DeallocateArgs {
            stateid: stateid(),
            offset: any::<u64>(),
            length: any::<u64>()
        })
        .prop_map(ArgOp4::Deallocate),
        fields!(IoAdviseArgs {
            stateid: stateid(),
            offset: any::<u64>(),
            count: any::<u64>(),
            hints: bitmap(),
        })
        .prop_map(ArgOp4::IoAdvise),
        fields!(SeekArgs {
            stateid: stateid(),
            offset: any::<u64>(),
            what: one_of(DataContent4::ALL),
        })
        .prop_map(ArgOp4::Seek),
        fields!(CloneArgs {
            src_stateid: stateid(),
            dst_stateid: stateid(),
            src_offset: any::<u64>(),
            dst_offset: any::<u64>(),
            count: any::<u64>(),
        })
        .prop_map(ArgOp4::Clone),
    ]
    .boxed()
}

fn opens() -> BoxedStrategy<ArgOp4> {
    let how = prop_oneof![
        fattr().prop_map(CreateHow4::Unchecked),
        fattr().prop_map(CreateHow4::Guarded),
        verifier().prop_map(CreateHow4::Exclusive),
        fields!(CreateVerfAttr {
            verf: verifier(),
            attrs: fattr()
        })
        .prop_map(CreateHow4::Exclusive41),
    ];
    let openhow = prop_oneof![Just(OpenFlag4::NoCreate), how.prop_map(OpenFlag4::Create)];
    let claim = prop_oneof![
        name().prop_map(OpenClaim4::Null),
        delegation_type().prop_map(OpenClaim4::Previous),
        fields!(OpenClaimDelegateCur4 {
            delegate_stateid: stateid(),
            file: name()
        })
        .prop_map(OpenClaim4::DelegateCur),
        name().prop_map(OpenClaim4::DelegatePrev),
        Just(OpenClaim4::Fh),
        stateid().prop_map(OpenClaim4::DelegCurFh),
        Just(OpenClaim4::DelegPrevFh),
    ];
    prop_oneof![
        fields!(OpenArgs {
            seqid: any::<u32>(),
            share_access: any::<u32>(),
            share_deny: any::<u32>(),
            owner: owner(),
            openhow: openhow,
            claim: claim,
        })
        .prop_map(ArgOp4::Open),
        fields!(CloseArgs {
            seqid: any::<u32>(),
            open_stateid: stateid()
        })
        .prop_map(ArgOp4::Close),
        fields!(OpenDowngradeArgs {
            open_stateid: stateid(),
            seqid: any::<u32>(),
            share_access: any::<u32>(),
            share_deny: any::<u32>(),
        })
        .prop_map(ArgOp4::OpenDowngrade),
        fields!(FreeStateidArgs { stateid: stateid() }).prop_map(ArgOp4::FreeStateid),
        fields!(TestStateidArgs {
            stateids: vec(stateid(), 0..5)
        })
        .prop_map(ArgOp4::TestStateid),
    ]
    .boxed()
}

fn locks() -> BoxedStrategy<ArgOp4> {
    let kind = || one_of(NfsLockType4::ALL);
    let locker = prop_oneof![
        fields!(OpenToLockOwner4 {
            open_seqid: any::<u32>(),
            open_stateid: stateid(),
            lock_seqid: any::<u32>(),
            lock_owner: owner(),
        })
        .prop_map(Locker4::OpenOwner),
        fields!(ExistLockOwner4 {
            lock_stateid: stateid(),
            lock_seqid: any::<u32>()
        })
        .prop_map(Locker4::LockOwner),
    ];
    prop_oneof![
        fields!(LockArgs {
            locktype: kind(),
            reclaim: any::<bool>(),
            offset: any::<u64>(),
            length: any::<u64>(),
            locker: locker,
        })
        .prop_map(ArgOp4::Lock),
        fields!(LocktArgs {
            locktype: kind(),
            offset: any::<u64>(),
            length: any::<u64>(),
            owner: owner(),
        })
        .prop_map(ArgOp4::Lockt),
        fields!(LockuArgs {
            locktype: kind(),
            seqid: any::<u32>(),
            lock_stateid: stateid(),
            offset: any::<u64>(),
            length: any::<u64>(),
        })
        .prop_map(ArgOp4::Locku),
    ]
    .boxed()
}

fn delegations() -> BoxedStrategy<ArgOp4> {
    let claim = prop_oneof![
        delegation_type().prop_map(DelegClaim4::Previous),
        Just(DelegClaim4::Fh),
        Just(DelegClaim4::DelegPrevFh),
    ];
    prop_oneof![
        fields!(DelegpurgeArgs {
            clientid: any::<u64>()
        })
        .prop_map(ArgOp4::Delegpurge),
        fields!(DelegreturnArgs { stateid: stateid() }).prop_map(ArgOp4::Delegreturn),
        fields!(WantDelegationArgs {
            want: any::<u32>(),
            claim: claim
        })
        .prop_map(ArgOp4::WantDelegation),
        fields!(GetDirDelegationArgs {
            signal_deleg_avail: any::<bool>(),
            notification_types: bitmap(),
            child_attr_delay: time(),
            dir_attr_delay: time(),
            child_attributes: bitmap(),
            dir_attributes: bitmap(),
        })
        .prop_map(ArgOp4::GetDirDelegation),
    ]
    .boxed()
}

fn clients() -> BoxedStrategy<ArgOp4> {
    let protection = prop_oneof![
        Just(StateProtect4A::None),
        protected_ops().prop_map(StateProtect4A::MachCred),
        fields!(SsvSpParms4 {
            ops: protected_ops(),
            hash_algs: vec(oid(), 0..3),
            encr_algs: vec(oid(), 0..3),
            window: any::<u32>(),
            num_gss_handles: any::<u32>(),
        })
        .prop_map(StateProtect4A::Ssv),
    ];
    let clientowner = fields!(ClientOwner4 {
        verifier: verifier(),
        ownerid: opaque(OPAQUE_LIMIT)
    });
    prop_oneof![
        fields!(ExchangeIdArgs {
            clientowner: clientowner,
            flags: any::<u32>(),
            state_protect: protection,
            client_impl_id: option::of(implementation()),
        })
        .prop_map(ArgOp4::ExchangeId),
        fields!(DestroyClientidArgs {
            clientid: any::<u64>()
        })
        .prop_map(ArgOp4::DestroyClientid),
        fields!(ReclaimCompleteArgs {
            one_fs: any::<bool>()
        })
        .prop_map(ArgOp4::ReclaimComplete),
        fields!(SetSsvArgs {
            ssv: opaque(40),
            digest: opaque(40)
        })
        .prop_map(ArgOp4::SetSsv),
    ]
    .boxed()
}

fn sessions() -> BoxedStrategy<ArgOp4> {
    prop_oneof![
        fields!(CreateSessionArgs {
            clientid: any::<u64>(),
            sequence: any::<u32>(),
            flags: any::<u32>(),
            fore_chan_attrs: channel(),
            back_chan_attrs: channel(),
            cb_program: any::<u32>(),
            sec_parms: callback_security(),
        })
        .prop_map(ArgOp4::CreateSession),
        fields!(DestroySessionArgs {
            sessionid: sessionid()
        })
        .prop_map(ArgOp4::DestroySession),
        fields!(BindConnToSessionArgs {
            sessid: sessionid(),
            dir: one_of(ChannelDirFromClient4::ALL),
            use_conn_in_rdma_mode: any::<bool>(),
        })
        .prop_map(ArgOp4::BindConnToSession),
        fields!(BackchannelCtlArgs {
            cb_program: any::<u32>(),
            sec_parms: callback_security()
        })
        .prop_map(ArgOp4::BackchannelCtl),
        fields!(SequenceArgs {
            sessionid: sessionid(),
            sequenceid: any::<u32>(),
            slotid: any::<u32>(),
            highest_slotid: any::<u32>(),
            cachethis: any::<bool>(),
        })
        .prop_map(ArgOp4::Sequence),
    ]
    .boxed()
}

fn extended_attributes() -> BoxedStrategy<ArgOp4> {
    prop_oneof![
        fields!(GetxattrArgs { name: name() }).prop_map(ArgOp4::Getxattr),
        fields!(SetxattrArgs {
            option: one_of(SetxattrOption4::ALL),
            key: name(),
            value: opaque(100),
        })
        .prop_map(ArgOp4::Setxattr),
        fields!(ListxattrsArgs {
            cookie: any::<u64>(),
            maxcount: any::<u32>()
        })
        .prop_map(ArgOp4::Listxattrs),
        fields!(RemovexattrArgs { name: name() }).prop_map(ArgOp4::Removexattr),
    ]
    .boxed()
}
