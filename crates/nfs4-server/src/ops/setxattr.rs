//! SETXATTR: sets an extended attribute (RFC 8276, section 8.4.2).

use nfs4::{NfsStat4, SetxattrArgs, SetxattrOption4, SetxattrResOk};
use vfs::XattrMode;

use super::directory::change_info;
use super::getxattr::xattr_name;
use crate::compound::Compound;
use crate::status::OrStatus;

pub(crate) async fn setxattr(
    compound: &mut Compound<'_>,
    args: SetxattrArgs,
) -> Result<SetxattrResOk, NfsStat4> {
    let object = compound.current_writable()?;
    let name = xattr_name(args.key)?;
    let mode = match args.option {
        SetxattrOption4::Either => XattrMode::Any,
        SetxattrOption4::Create => XattrMode::Create,
        SetxattrOption4::Replace => XattrMode::Replace,
    };
    let file_system = &object.export.file_system;
    let who = compound.asking(&object.who);
    let change = file_system
        .set_xattr(&who, object.id, &name, args.value, mode)
        .await
        .or_status()?;
    Ok(SetxattrResOk {
        info: change_info(change),
    })
}
