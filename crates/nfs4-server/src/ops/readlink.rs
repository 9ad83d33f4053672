//! READLINK: the target of a symbolic link (RFC 8881, section 18.24).

use nfs4::{NfsStat4, ReadlinkResOk};
use vfs::Error;

use crate::compound::Compound;
use crate::status::status_of;

pub(crate) async fn readlink(compound: &mut Compound<'_>) -> Result<ReadlinkResOk, NfsStat4> {
    let object = compound.current_object(NfsStat4::WrongType)?;
    let target = object
        .export
        .file_system
        .read_link(&object.who, object.id)
        .await;
    let link = target.map_err(|error| match error {
        // Every object that is not a link has the same error here (RFC 8881, sections 15.2 and 18.24.4).
        Error::IsDirectory | Error::Invalid(_) => NfsStat4::WrongType,
        error => status_of(&error),
    })?;
    Ok(ReadlinkResOk { link })
}
