//! REMOVE: removes a name from the current directory (RFC 8881, section 18.25).

use nfs4::{NfsStat4, RemoveArgs, RemoveResOk};

use super::directory::{change_info, name, status_in_directory};
use crate::compound::Compound;

pub(crate) async fn remove(
    compound: &mut Compound<'_>,
    args: RemoveArgs,
) -> Result<RemoveResOk, NfsStat4> {
    let directory = compound.current_writable()?;
    let name = name(args.target)?;
    let file_system = &directory.export.file_system;
    let who = compound.asking(&directory.who);
    let change = file_system
        .remove(&who, directory.id, &name)
        .await
        .map_err(status_in_directory)?;
    Ok(RemoveResOk {
        cinfo: change_info(change),
    })
}
