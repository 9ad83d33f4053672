//! Delegations as they are sent: the unions in the results of OPEN and
//! WANT_DELEGATION, and the operations that give delegations back (RFC 8881,
//! sections 18.5, 18.6, 18.39 and 18.49). Servers decide when to grant one.

use xdr::{xdr_enum, xdr_struct, xdr_union};

use crate::{Bitmap4, Clientid4, Nfstime4, Stateid4, Utf8str, Verifier4};

xdr_enum! {
    /// The kind of a delegation, `open_delegation_type4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum OpenDelegationType4 {
        /// None.
        None = 0,
        /// Opens for reading need not be sent.
        Read = 1,
        /// No opens need be sent.
        Write = 2,
        /// None, with a reason.
        NoneExt = 3,
    }
}

xdr_union! {
    /// The delegation granted with an open, `open_delegation4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum OpenDelegation4 {
        /// None.
        0 => None,
        /// For reading.
        1 => Read(OpenReadDelegation4),
        /// For writing.
        2 => Write(OpenWriteDelegation4),
        /// None, with a reason. Only for clients that asked for a delegation.
        3 => NoneExt(OpenNoneDelegation4),
    }
}

xdr_struct! {
    /// A delegation for reading.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OpenReadDelegation4 {
        /// The delegation.
        pub stateid: Stateid4,
        /// True when it should be returned at once.
        pub recall: bool,
        /// The users that may open the file without asking the server.
        pub permissions: Nfsace4,
    }
}

xdr_struct! {
    /// A delegation for writing.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OpenWriteDelegation4 {
        /// The delegation.
        pub stateid: Stateid4,
        /// True when it should be returned at once.
        pub recall: bool,
        /// The size up to which the file may grow before data must be written back.
        pub space_limit: NfsSpaceLimit4,
        /// The users that may open the file without asking the server.
        pub permissions: Nfsace4,
    }
}

xdr_union! {
    /// Why no delegation was granted, `open_none_delegation4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum OpenNoneDelegation4 {
        /// WND4_NOT_WANTED: none was wanted.
        0 => NotWanted,
        /// WND4_CONTENTION: others use the file. True when the delegation will
        /// be sent when they stop.
        1 => Contention(bool),
        /// WND4_RESOURCE: resources are short. True when the client will be told
        /// when that ends.
        2 => Resource(bool),
        /// WND4_NOT_SUPP_FTYPE: not for files of this type.
        3 => NotSuppFtype,
        /// WND4_WRITE_DELEG_NOT_SUPP_FTYPE: not for writing files of this type.
        4 => WriteDelegNotSuppFtype,
        /// WND4_NOT_SUPP_UPGRADE: a delegation held cannot be upgraded.
        5 => NotSuppUpgrade,
        /// WND4_NOT_SUPP_DOWNGRADE: a delegation held cannot be downgraded.
        6 => NotSuppDowngrade,
        /// WND4_CANCELLED: the wish was taken back.
        7 => Cancelled,
        /// WND4_IS_DIR: the object is a directory.
        8 => IsDir,
    }
}

xdr_union! {
    /// The size up to which a delegated file may grow, `nfs_space_limit4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum NfsSpaceLimit4 {
        /// To this size in bytes.
        1 => Size(u64),
        /// To this many blocks.
        2 => Blocks(NfsModifiedLimit4),
    }
}

xdr_struct! {
    /// A size in blocks, `nfs_modified_limit4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct NfsModifiedLimit4 {
        /// How many blocks.
        pub num_blocks: u32,
        /// Bytes in each.
        pub bytes_per_block: u32,
    }
}

xdr_struct! {
    /// One entry of an access control list, `nfsace4` (RFC 8881, section 6.2.1).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Nfsace4 {
        /// Whether it allows, denies, audits or alarms.
        pub acetype: u32,
        /// How it is inherited.
        pub flag: u32,
        /// The accesses that it covers.
        pub access_mask: u32,
        /// The subject that it covers.
        pub who: Utf8str,
    }
}

xdr_struct! {
    /// DELEGPURGE: gives up delegations that await recovery.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct DelegpurgeArgs {
        /// From NFSv4.0; ignored since then.
        pub clientid: Clientid4,
    }
}

xdr_struct! {
    /// DELEGRETURN: gives a delegation back.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct DelegreturnArgs {
        /// The delegation.
        pub stateid: Stateid4,
    }
}

xdr_struct! {
    /// WANT_DELEGATION: asks for a delegation without an open.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WantDelegationArgs {
        /// The wish, bits of [`crate::share`].
        pub want: u32,
        /// The claim.
        pub claim: DelegClaim4,
    }
}

xdr_union! {
    /// The claim to a delegation, `deleg_claim4`. The numbers are
    /// those of [`crate::OpenClaim4`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum DelegClaim4 {
        /// CLAIM_PREVIOUS: held before the server restarted.
        1 => Previous(OpenDelegationType4),
        /// CLAIM_FH: a new one.
        4 => Fh,
        /// CLAIM_DELEG_PREV_FH: held before the client restarted.
        6 => DelegPrevFh,
    }
}

xdr_struct! {
    /// GET_DIR_DELEGATION: asks for a delegation of the current directory.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetDirDelegationArgs {
        /// True when the client wants a notification when one becomes available.
        pub signal_deleg_avail: bool,
        /// The changes that it wants to be notified of, bits of `notify_type4`.
        pub notification_types: Bitmap4,
        /// How long changes of children's attributes may be held back.
        pub child_attr_delay: Nfstime4,
        /// How long changes of the directory's attributes may be held back.
        pub dir_attr_delay: Nfstime4,
        /// The attributes of children that it wants to know.
        pub child_attributes: Bitmap4,
        /// The attributes of the directory that it wants to know.
        pub dir_attributes: Bitmap4,
    }
}

xdr_union! {
    /// The result of GET_DIR_DELEGATION when it did not fail,
    /// `GET_DIR_DELEGATION4res_non_fatal`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum GetDirDelegationResOk {
        /// GDD4_OK: granted.
        0 => Granted(DirDelegation),
        /// GDD4_UNAVAIL: not granted. True when the client will be told when one
        /// becomes available.
        1 => Unavailable(bool),
    }
}

xdr_struct! {
    /// A granted delegation of a directory, `GET_DIR_DELEGATION4resok`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DirDelegation {
        /// The cookie verifier of the directory.
        pub cookieverf: Verifier4,
        /// The delegation.
        pub stateid: Stateid4,
        /// The changes that it will be notified of.
        pub notification: Bitmap4,
        /// The attributes of children that it will be notified of.
        pub child_attributes: Bitmap4,
        /// The attributes of the directory that it will be notified of.
        pub dir_attributes: Bitmap4,
    }
}
