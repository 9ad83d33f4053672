//! LINK: adds a name for the saved object in the current directory (RFC 8881, section 18.9).

use nfs4::{LinkArgs, LinkResOk, NfsStat4};

use super::directory::{change_info, name, status_in_directory};
use crate::compound::Compound;

pub(crate) async fn link(
    compound: &mut Compound<'_>,
    args: LinkArgs,
) -> Result<LinkResOk, NfsStat4> {
    compound.current()?;
    let object = compound.saved_object(NfsStat4::XDev)?;
    let directory = compound.current_writable()?;
    if object.export.index != directory.export.index {
        return Err(NfsStat4::XDev);
    }
    let name = name(args.newname)?;
    let file_system = &directory.export.file_system;
    let who = compound.asking(&directory.who);
    let change = file_system
        .link(&who, object.id, directory.id, &name)
        .await
        .map_err(status_in_directory)?;
    Ok(LinkResOk {
        cinfo: change_info(change),
    })
}
