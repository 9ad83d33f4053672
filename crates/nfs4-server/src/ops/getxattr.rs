//! GETXATTR: the value of an extended attribute (RFC 8276, section 8.4.1).

use nfs4::{Component4, GetxattrArgs, GetxattrResOk, NfsStat4};
use vfs::XattrName;

use crate::compound::Compound;
use crate::status::{OrStatus, status_of_name};

pub(crate) async fn getxattr(
    compound: &mut Compound<'_>,
    args: GetxattrArgs,
) -> Result<GetxattrResOk, NfsStat4> {
    let object = compound.current_object(NfsStat4::NotSupp)?;
    let name = xattr_name(args.name)?;
    let value = object
        .export
        .file_system
        .xattr(&object.who, object.id, &name)
        .await
        .or_status()?;
    Ok(GetxattrResOk { value })
}

/// The name of an extended attribute from a client.
pub(super) fn xattr_name(component: Component4) -> Result<XattrName, NfsStat4> {
    XattrName::new(component.0).map_err(status_of_name)
}
