//! Shared by READ, WRITE and the other operations on data: the right to perform them.

use nfs4::{NfsStat4, StableHow4, Stateid4, Verifier4, WriteResOk};
use vfs::{AccessCheck, Credentials, Error, Stability, Written};

use crate::compound::Compound;
use crate::handle::ObjectHandle;
use crate::state::{Resolved, StateidUse};
use crate::status::status_of;
use crate::uses::Use;

/// The largest READ or WRITE in bytes; also reported as the attributes maxread and maxwrite.
pub(crate) const IO_BYTES_MAX: u32 = 1 << 20;

/// Whether the caller's open or the mode bits allow I/O.
pub(super) enum Right<'s> {
    /// The open allows it until this is dropped.
    Open {
        _use: Use<'s>,
    },
    ModeBits,
    /// The caller has an open that does not allow it. Clients that write whole pages read from files that they opened
    /// for writing (RFC 8881, section 9.1.2). This is granted if the caller could also open the file for reading.
    ModeBitsBesidesOpen,
}

impl Right<'_> {
    pub(super) fn access<'a>(&self, who: &'a Credentials) -> AccessCheck<'a> {
        match self {
            Right::Open { .. } => AccessCheck::Open(who),
            Right::ModeBits | Right::ModeBitsBesidesOpen => AccessCheck::Credentials(who),
        }
    }

    /// The status of an operation that was refused, or that failed, under this right.
    pub(super) fn status(&self, error: Error) -> NfsStat4 {
        match (self, error) {
            (Right::ModeBitsBesidesOpen, Error::AccessDenied) => NfsStat4::OpenMode,
            (_, error) => status_of_io(error),
        }
    }
}

/// The status of an operation on data. A conflict with another open's deny mode has a separate status here;
/// SHARE_DENIED is only for OPEN (RFC 8881, sections 9.7 and 15.2).
pub(super) fn status_of_io(error: Error) -> NfsStat4 {
    match error {
        Error::ShareDenied => NfsStat4::Locked,
        error => status_of(&error),
    }
}

/// Checks the stateid of an operation on data (RFC 8881, section 8.2.5).
pub(super) fn right<'s>(
    compound: &Compound<'s>,
    object: &ObjectHandle,
    stateid: Stateid4,
    wanted: StateidUse,
) -> Result<Right<'s>, NfsStat4> {
    let session = compound.session()?;
    let stateid = compound.substitute(stateid)?;
    let service = compound.service;
    let (resolved, in_grace) = {
        let mut state = service.state();
        let resolved = state.resolve_for_io(session.client, &stateid, object.key(), wanted)?;
        if let Resolved::Open(key) = resolved {
            state.begin_use(key, wanted)?;
        }
        (resolved, state.in_grace())
    };
    match resolved {
        Resolved::Open(key) => Ok(Right::Open {
            _use: service.use_begun(key, wanted),
        }),
        // Another client may still reclaim an open that denies this.
        _ if in_grace || object.export.file_system.others_reclaim() => Err(NfsStat4::Grace),
        Resolved::Anonymous | Resolved::ReadBypass => Ok(Right::ModeBits),
        Resolved::WriteOnly => Ok(Right::ModeBitsBesidesOpen),
    }
}

/// The required stability of a WRITE.
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
