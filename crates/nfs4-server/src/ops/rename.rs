//! RENAME: moves a name from the saved directory to the current one (RFC 8881, section 18.26).

use nfs4::{NfsStat4, RenameArgs, RenameResOk};
use vfs::Error;

use super::directory::{change_info, name, status_in_directory};
use crate::compound::Compound;

pub(crate) async fn rename(
    compound: &mut Compound<'_>,
    args: RenameArgs,
) -> Result<RenameResOk, NfsStat4> {
    compound.current()?;
    let from = compound.saved_object(NfsStat4::XDev)?;
    let to = compound.current_writable()?;
    if from.export.index != to.export.index {
        return Err(NfsStat4::XDev);
    }
    let (old, new) = (name(args.oldname)?, name(args.newname)?);
    let file_system = &to.export.file_system;
    let who = compound.asking(&to.who);
    let (source, target) = file_system
        .rename(&who, (from.id, &old), (to.id, &new))
        .await
        .map_err(status)?;
    Ok(RenameResOk {
        source_cinfo: change_info(source),
        target_cinfo: change_info(target),
    })
}

/// A file does not replace a directory. RENAME reports that as `EXIST` and has no `ISDIR` (RFC 8881, sections 15.2 and
/// 18.26.3).
fn status(error: Error) -> NfsStat4 {
    match error {
        Error::IsDirectory => NfsStat4::Exist,
        error => status_in_directory(error),
    }
}
