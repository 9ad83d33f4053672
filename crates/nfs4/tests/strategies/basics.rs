//! Random values of the types that many operations share.

use super::{fields, one_of, opaque};
use nfs4::*;
use oncrpc::{AuthSys, Groups};
use proptest::array::{uniform8, uniform12, uniform16};
use proptest::collection::vec;
use proptest::prelude::*;

pub fn stateid() -> impl Strategy<Value = Stateid4> {
    fields!(Stateid4 {
        seqid: any::<u32>(),
        other: uniform12(any::<u8>())
    })
}

pub fn verifier() -> impl Strategy<Value = Verifier4> {
    uniform8(any::<u8>()).prop_map(Verifier4)
}

pub fn sessionid() -> impl Strategy<Value = SessionId4> {
    uniform16(any::<u8>()).prop_map(SessionId4)
}

pub fn handle() -> impl Strategy<Value = NfsFh4> {
    opaque(FHSIZE).prop_map(NfsFh4)
}

pub fn name() -> impl Strategy<Value = Component4> {
    opaque(300).prop_map(Component4)
}

pub fn text() -> impl Strategy<Value = Utf8str> {
    ".{0,20}".prop_map(|text| Utf8str::from(text.as_str()))
}

pub fn bitmap() -> impl Strategy<Value = Bitmap4> {
    vec(any::<u32>(), 0..=Bitmap4::WORDS).prop_map(|words| set_of(&words))
}

/// The set whose words are these, lowest numbers first.
pub fn set_of(words: &[u32]) -> Bitmap4 {
    let bits = words.iter().zip((0..).step_by(32));
    let held = |(word, base): (&u32, u32)| {
        let word = *word;
        let bits = (0..32).filter(move |bit| word & (1 << bit) != 0);
        bits.map(move |bit| base + bit)
    };
    bits.flat_map(held).collect()
}

pub fn time() -> impl Strategy<Value = Nfstime4> {
    fields!(Nfstime4 {
        seconds: any::<i64>(),
        nseconds: any::<u32>()
    })
}

pub fn fattr() -> impl Strategy<Value = Fattr4> {
    fields!(Fattr4 {
        attrmask: bitmap(),
        attr_vals: opaque(64)
    })
}

pub fn change_info() -> impl Strategy<Value = ChangeInfo4> {
    fields!(ChangeInfo4 {
        atomic: any::<bool>(),
        before: any::<u64>(),
        after: any::<u64>()
    })
}

pub fn owner() -> impl Strategy<Value = StateOwner4> {
    fields!(StateOwner4 {
        clientid: any::<u64>(),
        owner: opaque(OPAQUE_LIMIT)
    })
}

/// Success as often as all failures together.
pub fn status() -> impl Strategy<Value = NfsStat4> {
    prop_oneof![Just(NfsStat4::Ok), one_of(NfsStat4::ALL)]
}

pub fn failure() -> impl Strategy<Value = NfsStat4> {
    one_of(NfsStat4::ALL).prop_filter("success is no failure", |status| !status.is_ok())
}

pub fn delegation_type() -> impl Strategy<Value = OpenDelegationType4> {
    one_of(OpenDelegationType4::ALL)
}

pub fn ace() -> impl Strategy<Value = Nfsace4> {
    fields!(Nfsace4 {
        acetype: any::<u32>(),
        flag: any::<u32>(),
        access_mask: any::<u32>(),
        who: text(),
    })
}

pub fn delegation() -> impl Strategy<Value = OpenDelegation4> {
    let limit = prop_oneof![
        any::<u64>().prop_map(NfsSpaceLimit4::Size),
        fields!(NfsModifiedLimit4 {
            num_blocks: any::<u32>(),
            bytes_per_block: any::<u32>()
        })
        .prop_map(NfsSpaceLimit4::Blocks),
    ];
    prop_oneof![
        Just(OpenDelegation4::None),
        fields!(OpenReadDelegation4 {
            stateid: stateid(),
            recall: any::<bool>(),
            permissions: ace(),
        })
        .prop_map(OpenDelegation4::Read),
        fields!(OpenWriteDelegation4 {
            stateid: stateid(),
            recall: any::<bool>(),
            space_limit: limit,
            permissions: ace(),
        })
        .prop_map(OpenDelegation4::Write),
        no_delegation().prop_map(OpenDelegation4::NoneExt),
    ]
}

fn no_delegation() -> impl Strategy<Value = OpenNoneDelegation4> {
    prop_oneof![
        Just(OpenNoneDelegation4::NotWanted),
        any::<bool>().prop_map(OpenNoneDelegation4::Contention),
        any::<bool>().prop_map(OpenNoneDelegation4::Resource),
        Just(OpenNoneDelegation4::NotSuppFtype),
        Just(OpenNoneDelegation4::WriteDelegNotSuppFtype),
        Just(OpenNoneDelegation4::NotSuppUpgrade),
        Just(OpenNoneDelegation4::NotSuppDowngrade),
        Just(OpenNoneDelegation4::Cancelled),
        Just(OpenNoneDelegation4::IsDir),
    ]
}

pub fn iomode() -> impl Strategy<Value = LayoutIomode4> {
    one_of(LayoutIomode4::ALL)
}

pub fn deviceid() -> impl Strategy<Value = Deviceid4> {
    uniform16(any::<u8>()).prop_map(Deviceid4)
}

pub fn channel() -> impl Strategy<Value = ChannelAttrs4> {
    fields!(ChannelAttrs4 {
        headerpadsize: any::<u32>(),
        maxrequestsize: any::<u32>(),
        maxresponsesize: any::<u32>(),
        maxresponsesize_cached: any::<u32>(),
        maxoperations: any::<u32>(),
        maxrequests: any::<u32>(),
        rdma_ird: any::<Option<u32>>(),
    })
}

pub fn implementation() -> impl Strategy<Value = NfsImplId4> {
    fields!(NfsImplId4 {
        domain: text(),
        name: text(),
        date: time()
    })
}

pub fn protected_ops() -> impl Strategy<Value = StateProtectOps4> {
    fields!(StateProtectOps4 {
        must_enforce: bitmap(),
        must_allow: bitmap()
    })
}

pub fn oid() -> impl Strategy<Value = SecOid4> {
    opaque(OID_MAX).prop_map(SecOid4)
}

pub fn service() -> impl Strategy<Value = RpcGssSvc> {
    one_of(RpcGssSvc::ALL)
}

pub fn callback_security() -> impl Strategy<Value = Vec<CallbackSecParms4>> {
    let sys = fields!(AuthSys {
        stamp: any::<u32>(),
        machinename: opaque(oncrpc::MACHINE_NAME_MAX),
        uid: any::<u32>(),
        gid: any::<u32>(),
        gids: vec(any::<u32>(), 0..=Groups::MAX).prop_map(|numbers| Groups::first_of(&numbers)),
    });
    let gss = fields!(GssCbHandles4 {
        service: service(),
        handle_from_server: opaque(40),
        handle_from_client: opaque(40),
    });
    let one = prop_oneof![
        Just(CallbackSecParms4::None),
        sys.prop_map(CallbackSecParms4::Sys),
        gss.prop_map(CallbackSecParms4::Gss),
    ];
    vec(one, 0..4)
}
