//! LOCK, LOCKT and LOCKU (RFC 8881, sections 18.10 to 18.12) as they travel.

use xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_enum, xdr_struct};

use crate::outcome::{Outcome, failure};
use crate::{Length4, NfsStat4, Offset4, StateOwner4, Stateid4};

xdr_enum! {
    /// The kind of a byte-range lock, `nfs_lock_type4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum NfsLockType4 {
        /// READ_LT: shared.
        Read = 1,
        /// WRITE_LT: exclusive.
        Write = 2,
        /// READW_LT: shared, and the client intends to wait for it.
        ReadW = 3,
        /// WRITEW_LT: exclusive, and the client intends to wait for it.
        WriteW = 4,
    }
}

impl NfsLockType4 {
    /// True when the lock excludes all others.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteW)
    }

    /// True when the client will wait if it cannot have the lock at once.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::ReadW | Self::WriteW)
    }
}

xdr_struct! {
    /// LOCK: locks a range of the current file.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LockArgs {
        /// The kind of lock.
        pub locktype: NfsLockType4,
        /// True when a lock is reclaimed after the server restarted.
        pub reclaim: bool,
        /// The first byte.
        pub offset: Offset4,
        /// The number of bytes; all ones for all that follow.
        pub length: Length4,
        /// The lock owner.
        pub locker: Locker4,
    }
}

/// The lock owner, `locker4`: a new owner for the file, or a known one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Locker4 {
    /// The first lock of an owner on this file.
    OpenOwner(OpenToLockOwner4),
    /// A further one.
    LockOwner(ExistLockOwner4),
}

impl Encode for Locker4 {
    fn encode(&self, w: &mut Writer) {
        match self {
            Locker4::OpenOwner(new) => {
                w.bool(true);
                w.write(new);
            }
            Locker4::LockOwner(existing) => {
                w.bool(false);
                w.write(existing);
            }
        }
    }
}

impl Decode for Locker4 {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        match r.bool()? {
            true => r.read().map(Locker4::OpenOwner),
            false => r.read().map(Locker4::LockOwner),
        }
    }
}

xdr_struct! {
    /// A new lock owner and the open it belongs to, `open_to_lock_owner4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct OpenToLockOwner4 {
        /// From NFSv4.0; ignored since then.
        pub open_seqid: u32,
        /// The open under which to lock.
        pub open_stateid: Stateid4,
        /// From NFSv4.0; ignored since then.
        pub lock_seqid: u32,
        /// The new owner.
        pub lock_owner: StateOwner4,
    }
}

xdr_struct! {
    /// A lock owner that holds lock state on the file, `exist_lock_owner4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ExistLockOwner4 {
        /// That state.
        pub lock_stateid: Stateid4,
        /// From NFSv4.0; ignored since then.
        pub lock_seqid: u32,
    }
}

xdr_struct! {
    /// The lock that is in the way, `LOCK4denied`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Lock4Denied {
        /// Its first byte.
        pub offset: Offset4,
        /// Its number of bytes; all ones for all that follow.
        pub length: Length4,
        /// Its kind.
        pub locktype: NfsLockType4,
        /// Its owner.
        pub owner: StateOwner4,
    }
}

xdr_struct! {
    /// The successful result of LOCK.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LockResOk {
        /// The lock state, in its next version.
        pub lock_stateid: Stateid4,
    }
}

/// The result of LOCK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockRes {
    /// The range is locked.
    Ok(LockResOk),
    /// NFS4ERR_DENIED: another owner holds a conflicting lock.
    Denied(Lock4Denied),
    /// Any other failure.
    Err(NfsStat4),
}

impl Outcome for LockRes {
    fn status(&self) -> NfsStat4 {
        match self {
            LockRes::Ok(_) => NfsStat4::Ok,
            LockRes::Denied(_) => NfsStat4::Denied,
            LockRes::Err(status) => refusal(*status),
        }
    }

    fn encode_outcome(&self, w: &mut Writer) {
        self.status().encode(w);
        match self {
            LockRes::Ok(body) => body.encode(w),
            LockRes::Denied(body) => body.encode(w),
            LockRes::Err(_) => {}
        }
    }

    fn decode_outcome(r: &mut Reader) -> Result<Self, DecodeError> {
        match r.read()? {
            NfsStat4::Ok => r.read().map(LockRes::Ok),
            NfsStat4::Denied => r.read().map(LockRes::Denied),
            status => Ok(LockRes::Err(status)),
        }
    }
}

xdr_struct! {
    /// LOCKT: asks whether a range could be locked.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LocktArgs {
        /// The kind of lock.
        pub locktype: NfsLockType4,
        /// The first byte.
        pub offset: Offset4,
        /// The number of bytes; all ones for all that follow.
        pub length: Length4,
        /// The owner that would lock.
        pub owner: StateOwner4,
    }
}

/// The result of LOCKT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocktRes {
    /// Nothing is in the way.
    Ok,
    /// NFS4ERR_DENIED: another owner holds a conflicting lock.
    Denied(Lock4Denied),
    /// Any other failure.
    Err(NfsStat4),
}

impl Outcome for LocktRes {
    fn status(&self) -> NfsStat4 {
        match self {
            LocktRes::Ok => NfsStat4::Ok,
            LocktRes::Denied(_) => NfsStat4::Denied,
            LocktRes::Err(status) => refusal(*status),
        }
    }

    fn encode_outcome(&self, w: &mut Writer) {
        self.status().encode(w);
        if let LocktRes::Denied(body) = self {
            body.encode(w);
        }
    }

    fn decode_outcome(r: &mut Reader) -> Result<Self, DecodeError> {
        match r.read()? {
            NfsStat4::Ok => Ok(LocktRes::Ok),
            NfsStat4::Denied => r.read().map(LocktRes::Denied),
            status => Ok(LocktRes::Err(status)),
        }
    }
}

/// A denial without the lock that is in the way cannot be sent.
pub(crate) fn refusal(status: NfsStat4) -> NfsStat4 {
    match failure(status) {
        NfsStat4::Denied => NfsStat4::ServerFault,
        status => status,
    }
}

xdr_struct! {
    /// LOCKU: unlocks a range.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LockuArgs {
        /// The kind of lock, of no importance.
        pub locktype: NfsLockType4,
        /// From NFSv4.0; ignored since then.
        pub seqid: u32,
        /// The lock state.
        pub lock_stateid: Stateid4,
        /// The first byte.
        pub offset: Offset4,
        /// The number of bytes; all ones for all that follow.
        pub length: Length4,
    }
}

xdr_struct! {
    /// The successful result of LOCKU.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LockuResOk {
        /// The lock state, in its next version.
        pub lock_stateid: Stateid4,
    }
}
