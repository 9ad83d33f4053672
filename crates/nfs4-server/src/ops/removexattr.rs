//! REMOVEXATTR: removes an extended attribute (RFC 8276, section 8.4.4).

use nfs4::{NfsStat4, RemovexattrArgs, RemovexattrResOk};

use super::directory::change_info;
use super::getxattr::xattr_name;
use crate::compound::Compound;
use crate::status::OrStatus;

pub(crate) async fn removexattr(
    compound: &mut Compound<'_>,
    args: RemovexattrArgs,
) -> Result<RemovexattrResOk, NfsStat4> {
    let object = compound.current_writable()?;
    let name = xattr_name(args.name)?;
    let file_system = &object.export.file_system;
    let who = compound.asking(&object.who);
    let change = file_system
        .remove_xattr(&who, object.id, &name)
        .await
        .or_status()?;
    Ok(RemovexattrResOk {
        info: change_info(change),
    })
}
