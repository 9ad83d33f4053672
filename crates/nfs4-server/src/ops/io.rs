//! What READ, WRITE and the other operations on data share: by which right they happen.

use nfs4::{NfsStat4, StableHow4, Stateid4, Verifier4, WriteResOk};
use vfs::{AccessCheck, Credentials, Error, Stability, Written};

use crate::compound::Compound;
use crate::handle::ObjectHandle;
use crate::state::{Resolved, StateidUse};
use crate::status::status_of;

/// Largest READ or WRITE, in bytes; also announced as the attributes maxread and maxwrite.
pub(crate) const IO_BYTES_MAX: u32 = 1 << 20;

/// Whether the caller's open, or else the mode bits, decide about I/O.
pub(super) enum Right {
    Open,
    ModeBits,
    /// The caller has an open that does not allow it. Clients that fill whole pages read back what they opened for writing
    /// (RFC 8881, section 9.1.2), which is granted to a caller that could open the file for reading as well.
    ModeBitsBesidesOpen,
}

impl Right {
    pub(super) fn access<'a>(&self, who: &'a Credentials) -> AccessCheck<'a> {
        match self {
            Right::Open => AccessCheck::Open(who),
            Right::ModeBits | Right::ModeBitsBesidesOpen => AccessCheck::Credentials(who),
        }
    }

    /// The status of an operation that was refused, or failed, under this right.
    pub(super) fn status(&self, error: Error) -> NfsStat4 {
        match (self, error) {
            (Right::ModeBitsBesidesOpen, Error::AccessDenied) => NfsStat4::OpenMode,
            (_, error) => status_of_io(error),
        }
    }
}

/// The status of an operation on data. What another open denies has a status of its own here; SHARE_DENIED
/// is for OPEN alone (RFC 8881, sections 9.7 and 15.2).
pub(super) fn status_of_io(error: Error) -> NfsStat4 {
    match error {
        Error::ShareDenied => NfsStat4::Locked,
        error => status_of(&error),
    }
}

/// Checks the stateid of an operation on data (RFC 8881, section 8.2.5).
pub(super) fn right(
    compound: &Compound<'_>,
    object: &ObjectHandle,
    stateid: Stateid4,
    wanted: StateidUse,
) -> Result<Right, NfsStat4> {
    let session = compound.session()?;
    let stateid = compound.substitute(stateid)?;
    let state = compound.service.state();
    match state.resolve_for_io(session.client, &stateid, object.key(), wanted)? {
        Resolved::Open(_) => Ok(Right::Open),
        // Somebody may yet reclaim an open that denies this.
        _ if state.in_grace() || object.export.file_system.others_reclaim() => Err(NfsStat4::Grace),
        Resolved::Anonymous | Resolved::ReadBypass => Ok(Right::ModeBits),
        Resolved::WriteOnly => Ok(Right::ModeBitsBesidesOpen),
    }
}

/// How stable a WRITE is to be.
pub(super) fn stability(asked: StableHow4) -> Stability {
    match asked {
        StableHow4::Unstable => Stability::Unstable,
        StableHow4::DataSync => Stability::Data,
        StableHow4::FileSync => Stability::File,
    }
}

/// The successful result of a WRITE.
pub(super) fn write_result(written: &Written) -> WriteResOk {
    WriteResOk {
        count: written.count,
        committed: match written.stability {
            Stability::Unstable => StableHow4::Unstable,
            Stability::Data => StableHow4::DataSync,
            Stability::File => StableHow4::FileSync,
        },
        writeverf: Verifier4(written.verifier.0),
    }
}
