//! SEEK: the next data or hole of a sparse file (RFC 7862, section 15.11).

use nfs4::{DataContent4, NfsStat4, SeekArgs, SeekResOk};
use vfs::{Error, SeekTarget};

use super::io::right;
use crate::compound::Compound;
use crate::state::StateidUse;
use crate::status::OrStatus;

pub(crate) async fn seek(
    compound: &mut Compound<'_>,
    args: SeekArgs,
) -> Result<SeekResOk, NfsStat4> {
    let object = compound.current_object(NfsStat4::IsDir)?;
    let right = right(compound, &object, args.stateid, StateidUse::Read)?;
    let target = match args.what {
        DataContent4::Data => SeekTarget::Data,
        DataContent4::Hole => SeekTarget::Hole,
    };
    let file_system = &object.export.file_system;
    let access = right.access(&object.who);
    let found = match file_system
        .seek(access, object.id, args.offset, target)
        .await
    {
        Err(Error::NotFound) => return Err(NfsStat4::Nxio),
        Err(error) => return Err(right.status(error)),
        Ok(found) => found,
    };
    let size = file_system.attributes(object.id).await.or_status()?.size;
    // After the last byte of data there is a hole that the client must not mistake for a stored one.
    let offset = found.unwrap_or(size);
    Ok(SeekResOk {
        eof: offset >= size,
        offset,
    })
}
