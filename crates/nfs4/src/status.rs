//! Status codes of operations: RFC 8881, section 15.1; RFC 7862, section 11.1;
//! RFC 8276, section 8.3. When each is due is the business of the operations.

use xdr::xdr_enum;

xdr_enum! {
    /// How an operation ended, `nfsstat4`.
    ///
    /// 10073 is not assigned.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub named enum NfsStat4 {
        /// NFS4_OK: success.
        Ok = 0,
        /// NFS4ERR_PERM: the caller is neither the owner nor privileged.
        Perm = 1,
        /// NFS4ERR_NOENT: the name does not exist.
        NoEnt = 2,
        /// NFS4ERR_IO: the storage failed.
        Io = 5,
        /// NFS4ERR_NXIO: no such device or address.
        Nxio = 6,
        /// NFS4ERR_ACCESS: permission is denied.
        Access = 13,
        /// NFS4ERR_EXIST: the name exists already.
        Exist = 17,
        /// NFS4ERR_XDEV: the objects lie on different file systems.
        XDev = 18,
        /// NFS4ERR_NOTDIR: a directory is needed.
        NotDir = 20,
        /// NFS4ERR_ISDIR: a directory cannot be used here.
        IsDir = 21,
        /// NFS4ERR_INVAL: an argument is invalid.
        Inval = 22,
        /// NFS4ERR_FBIG: the file would become too large.
        FBig = 27,
        /// NFS4ERR_NOSPC: no space is left.
        NoSpc = 28,
        /// NFS4ERR_ROFS: the file system is read-only.
        RoFs = 30,
        /// NFS4ERR_MLINK: the object has too many links.
        MLink = 31,
        /// NFS4ERR_NAMETOOLONG: the name is too long.
        NameTooLong = 63,
        /// NFS4ERR_NOTEMPTY: the directory is not empty.
        NotEmpty = 66,
        /// NFS4ERR_DQUOT: the quota is exhausted.
        DQuot = 69,
        /// NFS4ERR_STALE: the object of the handle is gone.
        Stale = 70,
        /// NFS4ERR_BADHANDLE: the handle is none of this server's.
        BadHandle = 10001,
        /// NFS4ERR_BAD_COOKIE: the directory cookie is not valid.
        BadCookie = 10003,
        /// NFS4ERR_NOTSUPP: the operation is not supported.
        NotSupp = 10004,
        /// NFS4ERR_TOOSMALL: the client's buffer is too small.
        TooSmall = 10005,
        /// NFS4ERR_SERVERFAULT: the server failed in a way that has no status.
        ServerFault = 10006,
        /// NFS4ERR_BADTYPE: objects of this type cannot be created so.
        BadType = 10007,
        /// NFS4ERR_DELAY: try again later.
        Delay = 10008,
        /// NFS4ERR_SAME: the attributes are the same (NVERIFY).
        Same = 10009,
        /// NFS4ERR_DENIED: a conflicting lock is held.
        Denied = 10010,
        /// NFS4ERR_EXPIRED: the lease has expired.
        Expired = 10011,
        /// NFS4ERR_LOCKED: a mandatory lock is in the way.
        Locked = 10012,
        /// NFS4ERR_GRACE: the server waits for clients to reclaim state.
        Grace = 10013,
        /// NFS4ERR_FHEXPIRED: the volatile file handle has expired.
        FhExpired = 10014,
        /// NFS4ERR_SHARE_DENIED: a share reservation is in the way.
        ShareDenied = 10015,
        /// NFS4ERR_WRONGSEC: another security flavor is demanded.
        WrongSec = 10016,
        /// NFS4ERR_CLID_INUSE: the client identifier belongs to another principal.
        ClidInUse = 10017,
        /// NFS4ERR_RESOURCE: resources are exhausted (NFSv4.0 only).
        Resource = 10018,
        /// NFS4ERR_MOVED: the file system is served elsewhere.
        Moved = 10019,
        /// NFS4ERR_NOFILEHANDLE: there is no current file handle.
        NoFileHandle = 10020,
        /// NFS4ERR_MINOR_VERS_MISMATCH: the minor version is not served.
        MinorVersMismatch = 10021,
        /// NFS4ERR_STALE_CLIENTID: the client is not known, after a restart for example.
        StaleClientid = 10022,
        /// NFS4ERR_STALE_STATEID: the stateid is of an earlier server instance (NFSv4.0 only).
        StaleStateid = 10023,
        /// NFS4ERR_OLD_STATEID: the stateid has a newer version.
        OldStateid = 10024,
        /// NFS4ERR_BAD_STATEID: the stateid names nothing suitable.
        BadStateid = 10025,
        /// NFS4ERR_BAD_SEQID: the owner's sequence is broken (NFSv4.0 only).
        BadSeqid = 10026,
        /// NFS4ERR_NOT_SAME: the attributes or verifiers differ.
        NotSame = 10027,
        /// NFS4ERR_LOCK_RANGE: the range cannot be split or merged.
        LockRange = 10028,
        /// NFS4ERR_SYMLINK: a symbolic link cannot be used here.
        Symlink = 10029,
        /// NFS4ERR_RESTOREFH: there is no saved file handle (NFSv4.0 only).
        RestoreFh = 10030,
        /// NFS4ERR_LEASE_MOVED: a lease has moved to another server.
        LeaseMoved = 10031,
        /// NFS4ERR_ATTRNOTSUPP: the attribute is not supported.
        AttrNotSupp = 10032,
        /// NFS4ERR_NO_GRACE: reclaims are not accepted now.
        NoGrace = 10033,
        /// NFS4ERR_RECLAIM_BAD: the reclaim cannot be granted.
        ReclaimBad = 10034,
        /// NFS4ERR_RECLAIM_CONFLICT: another client holds what is reclaimed.
        ReclaimConflict = 10035,
        /// NFS4ERR_BADXDR: the arguments cannot be decoded.
        BadXdr = 10036,
        /// NFS4ERR_LOCKS_HELD: locks are still held.
        LocksHeld = 10037,
        /// NFS4ERR_OPENMODE: the file is not open for this.
        OpenMode = 10038,
        /// NFS4ERR_BADOWNER: the owner cannot be translated.
        BadOwner = 10039,
        /// NFS4ERR_BADCHAR: a name has a character the server cannot hold.
        BadChar = 10040,
        /// NFS4ERR_BADNAME: the name is reserved or forbidden.
        BadName = 10041,
        /// NFS4ERR_BAD_RANGE: the lock range is too large for the server.
        BadRange = 10042,
        /// NFS4ERR_LOCK_NOTSUPP: atomic upgrade or downgrade is not supported.
        LockNotSupp = 10043,
        /// NFS4ERR_OP_ILLEGAL: there is no such operation.
        OpIllegal = 10044,
        /// NFS4ERR_DEADLOCK: waiting for the lock would deadlock.
        Deadlock = 10045,
        /// NFS4ERR_FILE_OPEN: the file is open.
        FileOpen = 10046,
        /// NFS4ERR_ADMIN_REVOKED: an administrator took the state away.
        AdminRevoked = 10047,
        /// NFS4ERR_CB_PATH_DOWN: the client cannot be called back.
        CbPathDown = 10048,
        /// NFS4ERR_BADIOMODE: the layout is for another kind of I/O.
        BadIoMode = 10049,
        /// NFS4ERR_BADLAYOUT: the layout is invalid.
        BadLayout = 10050,
        /// NFS4ERR_BAD_SESSION_DIGEST: the digest does not match (SSV).
        BadSessionDigest = 10051,
        /// NFS4ERR_BADSESSION: the session does not exist.
        BadSession = 10052,
        /// NFS4ERR_BADSLOT: the slot does not exist.
        BadSlot = 10053,
        /// NFS4ERR_COMPLETE_ALREADY: reclaiming was declared complete before.
        CompleteAlready = 10054,
        /// NFS4ERR_CONN_NOT_BOUND_TO_SESSION: the connection is not bound to the session.
        ConnNotBoundToSession = 10055,
        /// NFS4ERR_DELEG_ALREADY_WANTED: the delegation was asked for already.
        DelegAlreadyWanted = 10056,
        /// NFS4ERR_BACK_CHAN_BUSY: calls are outstanding on the back channel.
        BackChanBusy = 10057,
        /// NFS4ERR_LAYOUTTRYLATER: a layout may be available later.
        LayoutTryLater = 10058,
        /// NFS4ERR_LAYOUTUNAVAILABLE: there are no layouts for this file.
        LayoutUnavailable = 10059,
        /// NFS4ERR_NOMATCHING_LAYOUT: the client has no such layout.
        NoMatchingLayout = 10060,
        /// NFS4ERR_RECALLCONFLICT: a recall is under way.
        RecallConflict = 10061,
        /// NFS4ERR_UNKNOWN_LAYOUTTYPE: the layout type is not supported.
        UnknownLayoutType = 10062,
        /// NFS4ERR_SEQ_MISORDERED: the sequence number is not the next one.
        SeqMisordered = 10063,
        /// NFS4ERR_SEQUENCE_POS: SEQUENCE must come first.
        SequencePos = 10064,
        /// NFS4ERR_REQ_TOO_BIG: the request exceeds the session's limit.
        ReqTooBig = 10065,
        /// NFS4ERR_REP_TOO_BIG: the reply would exceed the session's limit.
        RepTooBig = 10066,
        /// NFS4ERR_REP_TOO_BIG_TO_CACHE: the reply would exceed the limit for cached replies.
        RepTooBigToCache = 10067,
        /// NFS4ERR_RETRY_UNCACHED_REP: the request was repeated and its reply was not kept.
        RetryUncachedRep = 10068,
        /// NFS4ERR_UNSAFE_COMPOUND: the request would need a cached reply and has none.
        UnsafeCompound = 10069,
        /// NFS4ERR_TOO_MANY_OPS: the request has too many operations.
        TooManyOps = 10070,
        /// NFS4ERR_OP_NOT_IN_SESSION: the operation needs SEQUENCE in front.
        OpNotInSession = 10071,
        /// NFS4ERR_HASH_ALG_UNSUPP: no hash algorithm offered is supported.
        HashAlgUnsupp = 10072,
        /// NFS4ERR_CLIENTID_BUSY: the client still holds state.
        ClientidBusy = 10074,
        /// NFS4ERR_PNFS_IO_HOLE: the range of a data server has a hole.
        PnfsIoHole = 10075,
        /// NFS4ERR_SEQ_FALSE_RETRY: another request was sent with a used sequence number.
        SeqFalseRetry = 10076,
        /// NFS4ERR_BAD_HIGH_SLOT: the highest slot is below the one used.
        BadHighSlot = 10077,
        /// NFS4ERR_DEADSESSION: the session is persistent but its client is gone.
        DeadSession = 10078,
        /// NFS4ERR_ENCR_ALG_UNSUPP: no encryption algorithm offered is supported.
        EncrAlgUnsupp = 10079,
        /// NFS4ERR_PNFS_NO_LAYOUT: the client holds no layout for this I/O.
        PnfsNoLayout = 10080,
        /// NFS4ERR_NOT_ONLY_OP: the operation must be alone in its request.
        NotOnlyOp = 10081,
        /// NFS4ERR_WRONG_CRED: another principal owns the state.
        WrongCred = 10082,
        /// NFS4ERR_WRONG_TYPE: the object has the wrong type.
        WrongType = 10083,
        /// NFS4ERR_DIRDELEG_UNAVAIL: no directory delegation is available.
        DirDelegUnavail = 10084,
        /// NFS4ERR_REJECT_DELEG: the client does not want the delegation (callback).
        RejectDeleg = 10085,
        /// NFS4ERR_RETURNCONFLICT: a layout return is under way.
        ReturnConflict = 10086,
        /// NFS4ERR_DELEG_REVOKED: the delegation was taken away.
        DelegRevoked = 10087,
        /// NFS4ERR_PARTNER_NOTSUPP: the other server of a copy cannot do it.
        PartnerNotSupp = 10088,
        /// NFS4ERR_PARTNER_NO_AUTH: the other server of a copy was not authorised.
        PartnerNoAuth = 10089,
        /// NFS4ERR_UNION_NOTSUPP: the arm of the union is not supported.
        UnionNotSupp = 10090,
        /// NFS4ERR_OFFLOAD_DENIED: the copy is not allowed.
        OffloadDenied = 10091,
        /// NFS4ERR_WRONG_LFS: the format of the label is not supported.
        WrongLfs = 10092,
        /// NFS4ERR_BADLABEL: the label is invalid.
        BadLabel = 10093,
        /// NFS4ERR_OFFLOAD_NO_REQS: the copy cannot meet what was required of it.
        OffloadNoReqs = 10094,
        /// NFS4ERR_NOXATTR: there is no such extended attribute.
        NoXattr = 10095,
        /// NFS4ERR_XATTR2BIG: the extended attribute is too large.
        Xattr2Big = 10096,
    }
}

impl NfsStat4 {
    /// True for success.
    #[inline]
    pub const fn is_ok(self) -> bool {
        matches!(self, NfsStat4::Ok)
    }
}
