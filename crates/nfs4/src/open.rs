//! OPEN, CLOSE and OPEN_DOWNGRADE (RFC 8881, sections 18.16, 18.2 and 18.18) as
//! they travel. Share reservations and the life of stateids are server matters.

use xdr::{xdr_struct, xdr_union};

use crate::{
    Bitmap4, ChangeInfo4, Component4, Fattr4, OpenDelegation4, OpenDelegationType4, StateOwner4,
    Stateid4, Verifier4,
};

/// Bits of `share_access` and `share_deny` (RFC 8881, section 18.16.1).
pub mod share {
    /// The bits of `share_access` that ask for access.
    pub const ACCESS_MASK: u32 = 0x0003;
    /// Reading is wanted: `OPEN4_SHARE_ACCESS_READ`.
    pub const ACCESS_READ: u32 = 0x0001;
    /// Writing is wanted: `OPEN4_SHARE_ACCESS_WRITE`.
    pub const ACCESS_WRITE: u32 = 0x0002;
    /// Both are wanted: `OPEN4_SHARE_ACCESS_BOTH`.
    pub const ACCESS_BOTH: u32 = 0x0003;
    /// Nothing is denied to others: `OPEN4_SHARE_DENY_NONE`.
    pub const DENY_NONE: u32 = 0x0000;
    /// Reading is denied to others: `OPEN4_SHARE_DENY_READ`.
    pub const DENY_READ: u32 = 0x0001;
    /// Writing is denied to others: `OPEN4_SHARE_DENY_WRITE`.
    pub const DENY_WRITE: u32 = 0x0002;
    /// Both are denied to others: `OPEN4_SHARE_DENY_BOTH`.
    pub const DENY_BOTH: u32 = 0x0003;
    /// The bits of `share_access` for the wanted delegation.
    pub const WANT_DELEG_MASK: u32 = 0xff00;
    /// No wish about delegations.
    pub const WANT_NO_PREFERENCE: u32 = 0x0000;
    /// A read delegation is wanted.
    pub const WANT_READ_DELEG: u32 = 0x0100;
    /// A write delegation is wanted.
    pub const WANT_WRITE_DELEG: u32 = 0x0200;
    /// Any delegation is wanted.
    pub const WANT_ANY_DELEG: u32 = 0x0300;
    /// No delegation is wanted.
    pub const WANT_NO_DELEG: u32 = 0x0400;
    /// An earlier wish is taken back.
    pub const WANT_CANCEL: u32 = 0x0500;
    /// Tell the client when a delegation refused for lack of resources is possible.
    pub const WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL: u32 = 0x1_0000;
    /// Send the client a delegation refused for contention when that ends.
    pub const WANT_PUSH_DELEG_WHEN_UNCONTENDED: u32 = 0x2_0000;
}

/// Bits of `rflags` in the result of OPEN (RFC 8881, section 18.16.2).
pub mod open_result {
    /// The open must be confirmed: never set in NFSv4.1.
    pub const CONFIRM: u32 = 0x0002;
    /// Byte-range locks behave as POSIX wants: they can be split and merged.
    pub const LOCKTYPE_POSIX: u32 = 0x0004;
    /// An open file stays usable after it was removed.
    pub const PRESERVE_UNLINKED: u32 = 0x0008;
    /// The server may send CB_NOTIFY_LOCK.
    pub const MAY_NOTIFY_LOCK: u32 = 0x0020;
}

xdr_struct! {
    /// OPEN: opens a regular file, creating it if asked to.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OpenArgs {
        /// From NFSv4.0; ignored since then.
        pub seqid: u32,
        /// Wanted access and wishes about delegations: bits of [`share`], as received.
        pub share_access: u32,
        /// The access denied to others: bits of [`share`].
        pub share_deny: u32,
        /// The open owner.
        pub owner: StateOwner4,
        /// Whether the file is created.
        pub openhow: OpenFlag4,
        /// The name of the file, and the claim to open it.
        pub claim: OpenClaim4,
    }
}

xdr_union! {
    /// Whether OPEN may create the file, `openflag4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum OpenFlag4 {
        /// OPEN4_NOCREATE: the file must exist.
        0 => NoCreate,
        /// OPEN4_CREATE: the file is created.
        1 => Create(CreateHow4),
    }
}

xdr_union! {
    /// How OPEN creates a file, `createhow4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum CreateHow4 {
        /// UNCHECKED4: unless it exists, with these attributes.
        0 => Unchecked(Fattr4),
        /// GUARDED4: it must not exist; with these attributes.
        1 => Guarded(Fattr4),
        /// EXCLUSIVE4: exactly once, recognised by the verifier.
        2 => Exclusive(Verifier4),
        /// EXCLUSIVE4_1: exactly once, and with attributes.
        3 => Exclusive41(CreateVerfAttr),
    }
}

xdr_struct! {
    /// The arguments of EXCLUSIVE4_1, `creatverfattr`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CreateVerfAttr {
        /// Tells a repeated request from another client's.
        pub verf: Verifier4,
        /// The attributes of the new file.
        pub attrs: Fattr4,
    }
}

xdr_union! {
    /// The claim to open a file, `open_claim4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum OpenClaim4 {
        /// CLAIM_NULL: an ordinary open of a name in the current directory.
        0 => Null(Component4),
        /// CLAIM_PREVIOUS: reclaims an open of the current file, and the
        /// delegation held, after the server restarted.
        1 => Previous(OpenDelegationType4),
        /// CLAIM_DELEGATE_CUR: a name, under a delegation held.
        2 => DelegateCur(OpenClaimDelegateCur4),
        /// CLAIM_DELEGATE_PREV: a name, under a delegation held before the
        /// client restarted.
        3 => DelegatePrev(Component4),
        /// CLAIM_FH: an ordinary open of the current file.
        4 => Fh,
        /// CLAIM_DELEG_CUR_FH: the current file, under a delegation held.
        5 => DelegCurFh(Stateid4),
        /// CLAIM_DELEG_PREV_FH: the current file, under a delegation held before
        /// the client restarted.
        6 => DelegPrevFh,
    }
}

xdr_struct! {
    /// The arguments of CLAIM_DELEGATE_CUR, `open_claim_delegate_cur4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OpenClaimDelegateCur4 {
        /// The delegation.
        pub delegate_stateid: Stateid4,
        /// The name in the current directory.
        pub file: Component4,
    }
}

xdr_struct! {
    /// The successful result of OPEN.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OpenResOk {
        /// The open that resulted.
        pub stateid: Stateid4,
        /// The change of the directory.
        pub cinfo: ChangeInfo4,
        /// Bits of [`open_result`].
        pub rflags: u32,
        /// Attributes that were set while creating.
        pub attrset: Bitmap4,
        /// The delegation granted, or why none.
        pub delegation: OpenDelegation4,
    }
}

xdr_struct! {
    /// CLOSE: ends an open.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CloseArgs {
        /// From NFSv4.0; ignored since then.
        pub seqid: u32,
        /// The open to end.
        pub open_stateid: Stateid4,
    }
}

xdr_struct! {
    /// The successful result of CLOSE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CloseResOk {
        /// Of no use; [`Stateid4::INVALID`] is recommended.
        pub open_stateid: Stateid4,
    }
}

xdr_struct! {
    /// OPEN_DOWNGRADE: gives up part of the access of an open.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OpenDowngradeArgs {
        /// The open.
        pub open_stateid: Stateid4,
        /// From NFSv4.0; ignored since then.
        pub seqid: u32,
        /// The access that remains, bits of [`share`].
        pub share_access: u32,
        /// The access that remains denied to others, bits of [`share`].
        pub share_deny: u32,
    }
}

xdr_struct! {
    /// The successful result of OPEN_DOWNGRADE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OpenDowngradeResOk {
        /// The open, in its next version.
        pub open_stateid: Stateid4,
    }
}
