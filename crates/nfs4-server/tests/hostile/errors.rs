//! Which errors an operation may have (RFC 8881, section 15.2; RFC 7862, section 11.2; RFC 8276, section 8.4).

use nfs4::NfsStat4::{self, *};
use nfs4::{Opnum, ResOp4};

/// What protects the entries of others in a sticky directory: RFC 8881 names no error for that, and Linux says EPERM.
const STICKY: &[NfsStat4] = &[Perm];

/// Of every operation, as part of a COMPOUND. SERVERFAULT, which is one of them too, is none that a client may bring about.
const OF_ANY: &[NfsStat4] = &[
    BadXdr,
    DeadSession,
    Delay,
    OpNotInSession,
    RepTooBig,
    RepTooBigToCache,
    ReqTooBig,
    RetryUncachedRep,
    TooManyOps,
];
/// Of operations on the current filehandle.
const OF_HANDLE: &[NfsStat4] = &[FhExpired, Moved, NoFileHandle, Stale];
/// Of those that are given a name.
const OF_NAME: &[NfsStat4] = &[BadChar, BadName, Inval, NameTooLong, NotDir];
/// Of those that are given a stateid.
const OF_STATEID: &[NfsStat4] = &[AdminRevoked, BadStateid, DelegRevoked, Expired, OldStateid];
/// Of those that read or write data.
const OF_DATA: &[NfsStat4] = &[
    Access, Grace, Inval, Io, IsDir, Locked, OpenMode, Symlink, WrongType,
];
/// Of those that take space.
const OF_SPACE: &[NfsStat4] = &[DQuot, FBig, NoSpc, RoFs];
/// Of those that are not supported everywhere.
const NOT_SUPPORTED: &[NfsStat4] = &[NotSupp];

/// Whether RFC 8881 and those that extend it name this outcome of an operation.
pub fn is_named(result: &ResOp4) -> bool {
    let (number, status) = (result.opnum(), result.status());
    let Some(operation) = Opnum::try_from(number).ok() else {
        return false;
    };
    let sets = about_objects(operation)
        .or_else(|| about_state(operation))
        .unwrap_or_else(|| about_sessions(operation));
    status.is_ok() || OF_ANY.contains(&status) || sets.iter().any(|set| set.contains(&status))
}

type Sets = Vec<&'static [NfsStat4]>;

fn about_objects(operation: Opnum) -> Option<Sets> {
    Some(match operation {
        Opnum::Access | Opnum::Getattr => vec![OF_HANDLE, &[Access, Grace, Inval, Io, WrongType]],
        Opnum::Create => vec![
            OF_HANDLE,
            OF_NAME,
            OF_SPACE,
            &[Access, AttrNotSupp, BadOwner, BadType, Exist, Io, MLink],
            &[Perm, UnsafeCompound],
        ],
        Opnum::Getfh | Opnum::Savefh => vec![OF_HANDLE],
        Opnum::Link => vec![
            OF_HANDLE,
            OF_NAME,
            OF_SPACE,
            &[Access, Exist, FileOpen, Grace, IsDir, Io, MLink, NoEnt],
            &[NotSupp, Symlink, WrongSec, WrongType, XDev],
        ],
        Opnum::Lookup => vec![OF_HANDLE, OF_NAME, &[Access, Io, NoEnt, Symlink, WrongSec]],
        Opnum::Lookupp => vec![OF_HANDLE, &[Access, Io, NoEnt, NotDir, Symlink, WrongSec]],
        Opnum::Nverify | Opnum::Verify => vec![
            OF_HANDLE,
            &[Access, AttrNotSupp, BadChar, Grace, Inval, Io],
            match operation {
                Opnum::Verify => &[NotSame, WrongType, UnknownLayoutType],
                _ => &[Same, WrongType, UnknownLayoutType],
            },
        ],
        Opnum::Openattr => vec![
            OF_HANDLE,
            OF_SPACE,
            &[Access, Io, NoEnt, NotSupp, UnsafeCompound, WrongType],
        ],
        Opnum::Putfh => vec![&[BadHandle, Moved, Stale, WrongSec]],
        Opnum::Putpubfh | Opnum::Putrootfh => vec![&[WrongSec]],
        Opnum::Readdir => vec![
            OF_HANDLE,
            &[Access, BadCookie, Inval, Io, NotDir, NotSame, TooSmall],
        ],
        Opnum::Readlink => vec![OF_HANDLE, &[Access, Inval, Io, WrongType]],
        Opnum::Remove => vec![
            OF_HANDLE,
            OF_NAME,
            &[Access, FileOpen, Grace, Io, NoEnt, NotEmpty, RoFs],
            STICKY,
        ],
        Opnum::Rename => vec![
            OF_HANDLE,
            OF_NAME,
            OF_SPACE,
            &[Access, Exist, FileOpen, Grace, Io, MLink, NoEnt, NotEmpty],
            &[WrongSec, XDev],
            STICKY,
        ],
        Opnum::Restorefh => vec![OF_HANDLE, &[WrongSec]],
        Opnum::Secinfo => vec![OF_HANDLE, OF_NAME, &[Access, NoEnt]],
        Opnum::SecinfoNoName => vec![OF_HANDLE, &[Access, Inval, NoEnt, NotDir, NotSupp]],
        Opnum::Setattr => vec![
            OF_HANDLE,
            OF_STATEID,
            OF_SPACE,
            &[Access, AttrNotSupp, BadChar, BadOwner, Grace, Inval, Io],
            // ISDIR as in RFC 7530, section 13.2: of a size that is set.
            &[IsDir, Locked, OpenMode, Perm, UnknownLayoutType, WrongType],
        ],
        Opnum::Getxattr | Opnum::Listxattrs | Opnum::Removexattr | Opnum::Setxattr => vec![
            OF_HANDLE,
            OF_NAME,
            OF_SPACE,
            &[Access, BadCookie, Exist, Grace, Io, NotSupp, NoXattr, Perm],
            &[TooSmall, WrongType, Xattr2Big],
        ],
        _ => return None,
    })
}

fn about_state(operation: Opnum) -> Option<Sets> {
    let of_locks: &[NfsStat4] = &[
        Access,
        BadRange,
        Deadlock,
        Denied,
        Grace,
        Inval,
        IsDir,
        LockNotSupp,
        LockRange,
        RoFs,
        Symlink,
        WrongCred,
        WrongType,
    ];
    Some(match operation {
        Opnum::Close => vec![OF_HANDLE, OF_STATEID, &[LocksHeld, WrongCred]],
        Opnum::Commit => vec![OF_HANDLE, &[Access, Inval, Io, IsDir, Symlink, WrongType]],
        Opnum::Delegreturn => vec![OF_HANDLE, OF_STATEID, &[Inval, NotSupp, WrongCred]],
        Opnum::FreeStateid => vec![&[BadStateid, LocksHeld, OldStateid, WrongCred]],
        Opnum::Lock => vec![
            OF_HANDLE,
            OF_STATEID,
            of_locks,
            &[NoGrace, OpenMode, ReclaimBad, ReclaimConflict],
        ],
        Opnum::Lockt => vec![OF_HANDLE, of_locks],
        Opnum::Locku => vec![OF_HANDLE, OF_STATEID, of_locks],
        Opnum::Open => vec![
            OF_HANDLE,
            OF_NAME,
            OF_STATEID,
            OF_SPACE,
            &[Access, AttrNotSupp, BadOwner, Exist, Grace, IsDir, Io],
            &[NoEnt, NoGrace, NotSupp, Perm, ReclaimBad, ReclaimConflict],
            &[ShareDenied, Symlink, UnsafeCompound, WrongSec, WrongType],
        ],
        Opnum::OpenDowngrade => vec![OF_HANDLE, OF_STATEID, &[Inval, RoFs, WrongCred]],
        Opnum::Read => vec![OF_HANDLE, OF_STATEID, OF_DATA, &[PnfsIoHole, PnfsNoLayout]],
        Opnum::Write => vec![
            OF_HANDLE,
            OF_STATEID,
            OF_DATA,
            OF_SPACE,
            &[PnfsIoHole, PnfsNoLayout],
        ],
        Opnum::Allocate | Opnum::Deallocate => {
            vec![OF_HANDLE, OF_STATEID, OF_DATA, OF_SPACE, NOT_SUPPORTED]
        }
        Opnum::IoAdvise => vec![OF_HANDLE, OF_STATEID, OF_DATA, NOT_SUPPORTED],
        Opnum::Seek => vec![OF_HANDLE, OF_STATEID, OF_DATA, &[NotSupp, Nxio]],
        Opnum::TestStateid => vec![],
        _ => return None,
    })
}

fn about_sessions(operation: Opnum) -> Sets {
    vec![match operation {
        Opnum::BackchannelCtl => &[Inval, NoEnt],
        Opnum::BindConnToSession => &[BadSession, BadSessionDigest, Inval, NotOnlyOp],
        Opnum::CreateSession => &[
            ClidInUse,
            Inval,
            NoEnt,
            NotOnlyOp,
            NoSpc,
            SeqMisordered,
            StaleClientid,
            TooSmall,
            WrongCred,
        ],
        Opnum::DestroyClientid => &[ClientidBusy, NotOnlyOp, StaleClientid, WrongCred],
        Opnum::DestroySession => &[
            BackChanBusy,
            BadSession,
            CbPathDown,
            ConnNotBoundToSession,
            NotOnlyOp,
            StaleClientid,
            WrongCred,
        ],
        Opnum::ExchangeId => &[
            BadChar,
            ClidInUse,
            EncrAlgUnsupp,
            HashAlgUnsupp,
            Inval,
            NoEnt,
            NotOnlyOp,
            NotSame,
            Perm,
        ],
        Opnum::Illegal => &[OpIllegal],
        Opnum::ReclaimComplete => &[
            CompleteAlready,
            FhExpired,
            Inval,
            Moved,
            NoFileHandle,
            WrongCred,
            WrongType,
        ],
        Opnum::Sequence => &[
            BadSession,
            BadSlot,
            BadHighSlot,
            ConnNotBoundToSession,
            SequencePos,
            SeqFalseRetry,
            SeqMisordered,
        ],
        Opnum::SetSsv => &[BadSessionDigest, Inval],
        // What is not supported says so, whatever its arguments are.
        _ => NOT_SUPPORTED,
    }]
}
