//! Clients, sessions and their channels: EXCHANGE_ID, CREATE_SESSION, SEQUENCE
//! and their relatives (RFC 8881, sections 18.33 to 18.37, 18.46, 18.47, 18.50,
//! 18.51) as they travel. Slots, replies kept and leases are server matters.

use xdr::{Bytes, xdr_enum, xdr_struct, xdr_union};

use crate::{
    Bitmap4, CallbackSecParms4, Clientid4, Nfstime4, OID_MAX, OPAQUE_LIMIT, Sequenceid4,
    SessionId4, Slotid4, Utf8str, Verifier4,
};

/// The most algorithms or handles that are decoded where a list of them occurs.
const LIST_MAX: usize = 64;

/// Bits of `flags` in EXCHANGE_ID (RFC 8881, section 18.35.1).
pub mod exchgid {
    /// The sender handles referrals.
    pub const SUPP_MOVED_REFER: u32 = 0x0000_0001;
    /// The sender handles migration.
    pub const SUPP_MOVED_MIGR: u32 = 0x0000_0002;
    /// The server may refuse writes of revoked pNFS I/O (RFC 7862, section 14.1).
    pub const SUPP_FENCE_OPS: u32 = 0x0000_0004;
    /// State is bound to the principal that made it.
    pub const BIND_PRINC_STATEID: u32 = 0x0000_0100;
    /// The server is used without pNFS.
    pub const USE_NON_PNFS: u32 = 0x0001_0000;
    /// The server gives out layouts.
    pub const USE_PNFS_MDS: u32 = 0x0002_0000;
    /// The server serves data to holders of layouts.
    pub const USE_PNFS_DS: u32 = 0x0004_0000;
    /// The three bits above.
    pub const MASK_PNFS: u32 = 0x0007_0000;
    /// A confirmed client changes its earlier data (request only).
    pub const UPD_CONFIRMED_REC_A: u32 = 0x4000_0000;
    /// The client is confirmed already (reply only).
    pub const CONFIRMED_R: u32 = 0x8000_0000;
    /// All bits that a request may have.
    pub const MASK_A: u32 = 0x4007_0107;
}

/// Bits of `flags` in CREATE_SESSION (RFC 8881, section 18.36.1).
pub mod create_session {
    /// Replies are kept across restarts of the server.
    pub const PERSIST: u32 = 0x0000_0001;
    /// The connection serves as back channel too.
    pub const CONN_BACK_CHAN: u32 = 0x0000_0002;
    /// The connection changes to RDMA.
    pub const CONN_RDMA: u32 = 0x0000_0004;
}

/// Bits of `status_flags` in SEQUENCE (RFC 8881, section 18.46.2).
pub mod seq4_status {
    /// No back channel works for any session of the client.
    pub const CB_PATH_DOWN: u32 = 0x0000_0001;
    /// Security contexts of the back channel expire soon.
    pub const CB_GSS_CONTEXTS_EXPIRING: u32 = 0x0000_0002;
    /// Security contexts of the back channel have expired.
    pub const CB_GSS_CONTEXTS_EXPIRED: u32 = 0x0000_0004;
    /// The lease expired and all state was lost.
    pub const EXPIRED_ALL_STATE_REVOKED: u32 = 0x0000_0008;
    /// The lease expired and some state was lost.
    pub const EXPIRED_SOME_STATE_REVOKED: u32 = 0x0000_0010;
    /// An administrator took state away.
    pub const ADMIN_STATE_REVOKED: u32 = 0x0000_0020;
    /// State was taken away because it was not returned when recalled.
    pub const RECALLABLE_STATE_REVOKED: u32 = 0x0000_0040;
    /// A lease has moved to another server.
    pub const LEASE_MOVED: u32 = 0x0000_0080;
    /// The server restarted and state must be reclaimed.
    pub const RESTART_RECLAIM_NEEDED: u32 = 0x0000_0100;
    /// No back channel works for this session.
    pub const CB_PATH_DOWN_SESSION: u32 = 0x0000_0200;
    /// The back channel behaves wrongly.
    pub const BACKCHANNEL_FAULT: u32 = 0x0000_0400;
    /// The mapping of devices has changed.
    pub const DEVID_CHANGED: u32 = 0x0000_0800;
    /// Devices were deleted.
    pub const DEVID_DELETED: u32 = 0x0000_1000;
}

xdr_struct! {
    /// EXCHANGE_ID: a client introduces itself.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ExchangeIdArgs {
        /// The client's name.
        pub clientowner: ClientOwner4,
        /// Bits of [`exchgid`].
        pub flags: u32,
        /// The wanted protection of its state.
        pub state_protect: StateProtect4A,
        /// Its software.
        pub client_impl_id: Option<NfsImplId4>,
    }
}

xdr_struct! {
    /// The name of a client, `client_owner4`.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    pub struct ClientOwner4 {
        /// Changes when the client restarts.
        pub verifier: Verifier4,
        /// Stays when the client restarts.
        pub ownerid: Bytes [<= OPAQUE_LIMIT],
    }
}

xdr_struct! {
    /// The name of a server, `server_owner4`.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    pub struct ServerOwner4 {
        /// Servers that share it can share a session.
        pub minor_id: u64,
        /// Servers that share it can share a client identifier.
        pub major_id: Bytes [<= OPAQUE_LIMIT],
    }
}

xdr_struct! {
    /// The software of a client or a server, `nfs_impl_id4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct NfsImplId4 {
        /// The DNS name of its makers.
        pub domain: Utf8str,
        /// Its name and version.
        pub name: Utf8str,
        /// When it was made.
        pub date: Nfstime4,
    }
}

xdr_union! {
    /// How a client wants its state protected, `state_protect4_a`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum StateProtect4A {
        /// SP4_NONE: not at all.
        0 => None,
        /// SP4_MACH_CRED: by the credentials of its machine.
        1 => MachCred(StateProtectOps4),
        /// SP4_SSV: by a secret shared with the server.
        2 => Ssv(SsvSpParms4),
    }
}

xdr_union! {
    /// How a server protects a client's state, `state_protect4_r`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum StateProtect4R {
        /// SP4_NONE: not at all.
        0 => None,
        /// SP4_MACH_CRED: by the credentials of its machine.
        1 => MachCred(StateProtectOps4),
        /// SP4_SSV: by a secret shared with the server.
        2 => Ssv(SsvProtInfo4),
    }
}

xdr_struct! {
    /// The protected operations, as sets of operation numbers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct StateProtectOps4 {
        /// These must be protected.
        pub must_enforce: Bitmap4,
        /// These may be protected.
        pub must_allow: Bitmap4,
    }
}

xdr_struct! {
    /// The offer of a client for SP4_SSV, `ssv_sp_parms4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SsvSpParms4 {
        /// The protected operations.
        pub ops: StateProtectOps4,
        /// Hash algorithms, as object identifiers.
        pub hash_algs: Vec<SecOid4> [<= LIST_MAX],
        /// Encryption algorithms, as object identifiers.
        pub encr_algs: Vec<SecOid4> [<= LIST_MAX],
        /// How many versions of the secret are kept.
        pub window: u32,
        /// How many handles are wanted.
        pub num_gss_handles: u32,
    }
}

xdr_struct! {
    /// The choice of a server for SP4_SSV, `ssv_prot_info4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SsvProtInfo4 {
        /// The protected operations.
        pub ops: StateProtectOps4,
        /// The hash algorithm, as an index into the list offered.
        pub hash_alg: u32,
        /// The encryption algorithm, as an index into the list offered.
        pub encr_alg: u32,
        /// The length of the secret in bytes.
        pub ssv_len: u32,
        /// How many versions of the secret are kept.
        pub window: u32,
        /// Handles of contexts.
        pub handles: Vec<GssHandle4> [<= LIST_MAX],
    }
}

xdr::xdr_newtype! {
    /// An object identifier, `sec_oid4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SecOid4(pub Bytes [<= OID_MAX]);
}

xdr::xdr_newtype! {
    /// The handle of a security context, `gsshandle4_t`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GssHandle4(pub Bytes [<= OPAQUE_LIMIT]);
}

xdr_struct! {
    /// The successful result of EXCHANGE_ID.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ExchangeIdResOk {
        /// The client's identifier from now on.
        pub clientid: Clientid4,
        /// The sequence number that its next CREATE_SESSION must have.
        pub sequenceid: Sequenceid4,
        /// Bits of [`exchgid`].
        pub flags: u32,
        /// How its state is protected.
        pub state_protect: StateProtect4R,
        /// The server's name.
        pub server_owner: ServerOwner4,
        /// Servers that share it recognise each other's client identifiers.
        pub server_scope: Bytes [<= OPAQUE_LIMIT],
        /// The server's software.
        pub server_impl_id: Option<NfsImplId4>,
    }
}

xdr_struct! {
    /// Limits of one direction of a session, `channel_attrs4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ChannelAttrs4 {
        /// Padding before data, in bytes.
        pub headerpadsize: u32,
        /// The largest request, in bytes, RPC headers included.
        pub maxrequestsize: u32,
        /// The largest reply, in bytes, RPC headers included.
        pub maxresponsesize: u32,
        /// The largest reply that is kept, in bytes, RPC headers included.
        pub maxresponsesize_cached: u32,
        /// The most operations in a request.
        pub maxoperations: u32,
        /// The number of slots.
        pub maxrequests: u32,
        /// RDMA read depth; absent on TCP.
        pub rdma_ird: Option<u32>,
    }
}

xdr_struct! {
    /// CREATE_SESSION: makes a session, and confirms the client.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CreateSessionArgs {
        /// The client of the session.
        pub clientid: Clientid4,
        /// The sequence number that EXCHANGE_ID announced.
        pub sequence: Sequenceid4,
        /// Bits of [`create_session`].
        pub flags: u32,
        /// Limits wanted of requests to the server.
        pub fore_chan_attrs: ChannelAttrs4,
        /// Limits wanted of requests to the client.
        pub back_chan_attrs: ChannelAttrs4,
        /// The RPC program number of requests to the client.
        pub cb_program: u32,
        /// How the server may authenticate in these.
        pub sec_parms: Vec<CallbackSecParms4> [<= LIST_MAX],
    }
}

xdr_struct! {
    /// The successful result of CREATE_SESSION.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CreateSessionResOk {
        /// The session.
        pub sessionid: SessionId4,
        /// The sequence number of the request.
        pub sequence: Sequenceid4,
        /// Bits of [`create_session`] that were granted.
        pub flags: u32,
        /// Limits of requests to the server.
        pub fore_chan_attrs: ChannelAttrs4,
        /// Limits of requests to the client.
        pub back_chan_attrs: ChannelAttrs4,
    }
}

xdr_struct! {
    /// DESTROY_SESSION: ends a session.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct DestroySessionArgs {
        /// The session.
        pub sessionid: SessionId4,
    }
}

xdr_enum! {
    /// The channels for which a client wants a connection,
    /// `channel_dir_from_client4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ChannelDirFromClient4 {
        /// Requests to the server.
        Fore = 1,
        /// Requests to the client.
        Back = 2,
        /// Requests to the server, and to the client if possible.
        ForeOrBoth = 3,
        /// Requests to the client, and to the server if possible.
        BackOrBoth = 7,
    }
}

xdr_enum! {
    /// The channels that a connection serves, `channel_dir_from_server4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ChannelDirFromServer4 {
        /// Requests to the server.
        Fore = 1,
        /// Requests to the client.
        Back = 2,
        /// Both.
        Both = 3,
    }
}

xdr_struct! {
    /// BIND_CONN_TO_SESSION: uses the connection for a session.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct BindConnToSessionArgs {
        /// The session.
        pub sessid: SessionId4,
        /// The channels.
        pub dir: ChannelDirFromClient4,
        /// True when the connection is to change to RDMA.
        pub use_conn_in_rdma_mode: bool,
    }
}

xdr_struct! {
    /// The successful result of BIND_CONN_TO_SESSION.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct BindConnToSessionResOk {
        /// The session.
        pub sessid: SessionId4,
        /// The channels.
        pub dir: ChannelDirFromServer4,
        /// True when the connection changes to RDMA.
        pub use_conn_in_rdma_mode: bool,
    }
}

xdr_struct! {
    /// BACKCHANNEL_CTL: changes how the client is called back.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BackchannelCtlArgs {
        /// The RPC program number of requests to the client.
        pub cb_program: u32,
        /// How the server may authenticate in these.
        pub sec_parms: Vec<CallbackSecParms4> [<= LIST_MAX],
    }
}

xdr_struct! {
    /// SEQUENCE: gives the session and the slot of a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SequenceArgs {
        /// The session.
        pub sessionid: SessionId4,
        /// The sequence number of the slot.
        pub sequenceid: Sequenceid4,
        /// The slot.
        pub slotid: Slotid4,
        /// The highest slot that the client has a request outstanding on.
        pub highest_slotid: Slotid4,
        /// True when the reply must be kept.
        pub cachethis: bool,
    }
}

xdr_struct! {
    /// The successful result of SEQUENCE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SequenceResOk {
        /// The session.
        pub sessionid: SessionId4,
        /// The sequence number of the slot.
        pub sequenceid: Sequenceid4,
        /// The slot.
        pub slotid: Slotid4,
        /// The highest slot that the server keeps.
        pub highest_slotid: Slotid4,
        /// The highest slot that the server would like to be used.
        pub target_highest_slotid: Slotid4,
        /// Bits of [`seq4_status`].
        pub status_flags: u32,
    }
}

xdr_struct! {
    /// SET_SSV: changes the secret of SP4_SSV.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SetSsvArgs {
        /// The bytes that are combined with the secret.
        pub ssv: Bytes [<= OPAQUE_LIMIT],
        /// Proof that the sender knows the secret.
        pub digest: Bytes [<= OPAQUE_LIMIT],
    }
}

xdr_struct! {
    /// The successful result of SET_SSV.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SetSsvResOk {
        /// Proof that the server knows the new secret.
        pub digest: Bytes [<= OPAQUE_LIMIT],
    }
}

xdr_struct! {
    /// DESTROY_CLIENTID: a client takes its leave.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct DestroyClientidArgs {
        /// The client.
        pub clientid: Clientid4,
    }
}

xdr_struct! {
    /// RECLAIM_COMPLETE: the client has reclaimed all it wants to.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReclaimCompleteArgs {
        /// True when this is said of the current file system only.
        pub one_fs: bool,
    }
}
