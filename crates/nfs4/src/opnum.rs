//! The numbers of operations: RFC 8881, section 18; RFC 7862, section 15;
//! RFC 8276, section 8.4; and those of NFSv4.0 that 4.1 has given up.

use xdr::xdr_enum;

xdr_enum! {
    /// The number of an operation, `nfs_opnum4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub named enum Opnum {
        /// ACCESS (RFC 8881, section 18.1).
        Access = 3,
        /// CLOSE (RFC 8881, section 18.2).
        Close = 4,
        /// COMMIT (RFC 8881, section 18.3).
        Commit = 5,
        /// CREATE (RFC 8881, section 18.4).
        Create = 6,
        /// DELEGPURGE (RFC 8881, section 18.5).
        Delegpurge = 7,
        /// DELEGRETURN (RFC 8881, section 18.6).
        Delegreturn = 8,
        /// GETATTR (RFC 8881, section 18.7).
        Getattr = 9,
        /// GETFH (RFC 8881, section 18.8).
        Getfh = 10,
        /// LINK (RFC 8881, section 18.9).
        Link = 11,
        /// LOCK (RFC 8881, section 18.10).
        Lock = 12,
        /// LOCKT (RFC 8881, section 18.11).
        Lockt = 13,
        /// LOCKU (RFC 8881, section 18.12).
        Locku = 14,
        /// LOOKUP (RFC 8881, section 18.13).
        Lookup = 15,
        /// LOOKUPP (RFC 8881, section 18.14).
        Lookupp = 16,
        /// NVERIFY (RFC 8881, section 18.15).
        Nverify = 17,
        /// OPEN (RFC 8881, section 18.16).
        Open = 18,
        /// OPENATTR (RFC 8881, section 18.17).
        Openattr = 19,
        /// OPEN_CONFIRM (RFC 7530, section 16.18).
        OpenConfirm = 20,
        /// OPEN_DOWNGRADE (RFC 8881, section 18.18).
        OpenDowngrade = 21,
        /// PUTFH (RFC 8881, section 18.19).
        Putfh = 22,
        /// PUTPUBFH (RFC 8881, section 18.20).
        Putpubfh = 23,
        /// PUTROOTFH (RFC 8881, section 18.21).
        Putrootfh = 24,
        /// READ (RFC 8881, section 18.22).
        Read = 25,
        /// READDIR (RFC 8881, section 18.23).
        Readdir = 26,
        /// READLINK (RFC 8881, section 18.24).
        Readlink = 27,
        /// REMOVE (RFC 8881, section 18.25).
        Remove = 28,
        /// RENAME (RFC 8881, section 18.26).
        Rename = 29,
        /// RENEW (RFC 7530, section 16.28).
        Renew = 30,
        /// RESTOREFH (RFC 8881, section 18.27).
        Restorefh = 31,
        /// SAVEFH (RFC 8881, section 18.28).
        Savefh = 32,
        /// SECINFO (RFC 8881, section 18.29).
        Secinfo = 33,
        /// SETATTR (RFC 8881, section 18.30).
        Setattr = 34,
        /// SETCLIENTID (RFC 7530, section 16.33).
        Setclientid = 35,
        /// SETCLIENTID_CONFIRM (RFC 7530, section 16.34).
        SetclientidConfirm = 36,
        /// VERIFY (RFC 8881, section 18.31).
        Verify = 37,
        /// WRITE (RFC 8881, section 18.32).
        Write = 38,
        /// RELEASE_LOCKOWNER (RFC 7530, section 16.37).
        ReleaseLockowner = 39,
        /// BACKCHANNEL_CTL (RFC 8881, section 18.33).
        BackchannelCtl = 40,
        /// BIND_CONN_TO_SESSION (RFC 8881, section 18.34).
        BindConnToSession = 41,
        /// EXCHANGE_ID (RFC 8881, section 18.35).
        ExchangeId = 42,
        /// CREATE_SESSION (RFC 8881, section 18.36).
        CreateSession = 43,
        /// DESTROY_SESSION (RFC 8881, section 18.37).
        DestroySession = 44,
        /// FREE_STATEID (RFC 8881, section 18.38).
        FreeStateid = 45,
        /// GET_DIR_DELEGATION (RFC 8881, section 18.39).
        GetDirDelegation = 46,
        /// GETDEVICEINFO (RFC 8881, section 18.40).
        Getdeviceinfo = 47,
        /// GETDEVICELIST (RFC 8881, section 18.41).
        Getdevicelist = 48,
        /// LAYOUTCOMMIT (RFC 8881, section 18.42).
        Layoutcommit = 49,
        /// LAYOUTGET (RFC 8881, section 18.43).
        Layoutget = 50,
        /// LAYOUTRETURN (RFC 8881, section 18.44).
        Layoutreturn = 51,
        /// SECINFO_NO_NAME (RFC 8881, section 18.45).
        SecinfoNoName = 52,
        /// SEQUENCE (RFC 8881, section 18.46).
        Sequence = 53,
        /// SET_SSV (RFC 8881, section 18.47).
        SetSsv = 54,
        /// TEST_STATEID (RFC 8881, section 18.48).
        TestStateid = 55,
        /// WANT_DELEGATION (RFC 8881, section 18.49).
        WantDelegation = 56,
        /// DESTROY_CLIENTID (RFC 8881, section 18.50).
        DestroyClientid = 57,
        /// RECLAIM_COMPLETE (RFC 8881, section 18.51).
        ReclaimComplete = 58,
        /// ALLOCATE (RFC 7862, section 15.1).
        Allocate = 59,
        /// COPY (RFC 7862, section 15.2).
        Copy = 60,
        /// COPY_NOTIFY (RFC 7862, section 15.3).
        CopyNotify = 61,
        /// DEALLOCATE (RFC 7862, section 15.4).
        Deallocate = 62,
        /// IO_ADVISE (RFC 7862, section 15.5).
        IoAdvise = 63,
        /// LAYOUTERROR (RFC 7862, section 15.6).
        Layouterror = 64,
        /// LAYOUTSTATS (RFC 7862, section 15.7).
        Layoutstats = 65,
        /// OFFLOAD_CANCEL (RFC 7862, section 15.8).
        OffloadCancel = 66,
        /// OFFLOAD_STATUS (RFC 7862, section 15.9).
        OffloadStatus = 67,
        /// READ_PLUS (RFC 7862, section 15.10).
        ReadPlus = 68,
        /// SEEK (RFC 7862, section 15.11).
        Seek = 69,
        /// WRITE_SAME (RFC 7862, section 15.12).
        WriteSame = 70,
        /// CLONE (RFC 7862, section 15.13).
        Clone = 71,
        /// GETXATTR (RFC 8276, section 8.4.1).
        Getxattr = 72,
        /// SETXATTR (RFC 8276, section 8.4.2).
        Setxattr = 73,
        /// LISTXATTRS (RFC 8276, section 8.4.3).
        Listxattrs = 74,
        /// REMOVEXATTR (RFC 8276, section 8.4.4).
        Removexattr = 75,
        /// ILLEGAL (RFC 8881, section 18.52).
        Illegal = 10044,
    }
}

impl Opnum {
    /// The first minor version that has the operation; its number is illegal in
    /// earlier ones (RFC 8881, section 2.7; RFC 7862, section 1.3).
    pub const fn first_minor_version(self) -> u32 {
        match self as u32 {
            40..=58 => 1,
            59..=75 => 2,
            _ => 0,
        }
    }
}
