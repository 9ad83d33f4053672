//! ALLOCATE: reserves storage for a part of a file (RFC 7862, section 15.1).

use nfs4::{AllocateArgs, NfsStat4};

use super::io::{right, status_of_io};
use crate::compound::Compound;
use crate::state::StateidUse;

pub(crate) async fn allocate(
    compound: &mut Compound<'_>,
    args: AllocateArgs,
) -> Result<(), NfsStat4> {
    let object = compound.current_writable()?;
    let extent = extent(args.offset, args.length)?;
    let right = right(compound, &object, args.stateid, StateidUse::Write)?;
    let access = right.access(&object.who);
    object
        .export
        .file_system
        .allocate(access, object.id, extent)
        .await
        .map_err(status_of_io)
}

/// The extent of an ALLOCATE or DEALLOCATE: not empty, with an end within the maximum file size.
pub(super) fn extent(offset: u64, length: u64) -> Result<vfs::Extent, NfsStat4> {
    let end = offset
        .checked_add(length)
        .filter(|_| length > 0)
        .ok_or(NfsStat4::Inval)?;
    if end > i64::MAX as u64 {
        return Err(NfsStat4::FBig);
    }
    Ok(vfs::Extent { offset, length })
}
