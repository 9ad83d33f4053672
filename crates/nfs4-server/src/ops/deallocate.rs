//! DEALLOCATE: part of a file becomes a hole (RFC 7862, section 15.4).

use nfs4::{DeallocateArgs, NfsStat4};

use super::allocate::extent;
use super::io::{right, status_of_io};
use crate::compound::Compound;
use crate::state::StateidUse;

pub(crate) async fn deallocate(
    compound: &mut Compound<'_>,
    args: DeallocateArgs,
) -> Result<(), NfsStat4> {
    let object = compound.current_writable()?;
    let extent = extent(args.offset, args.length)?;
    let right = right(compound, &object, args.stateid, StateidUse::Write)?;
    let access = right.access(&object.who);
    object
        .export
        .file_system
        .deallocate(access, object.id, extent)
        .await
        .map_err(status_of_io)
}
