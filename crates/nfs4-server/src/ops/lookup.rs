//! LOOKUP: goes to a name in the current directory (RFC 8881, section 18.13).

use nfs4::{Component4, LookupArgs, NfsStat4};

use super::directory::{name, status_of_lookup};
use crate::compound::Compound;
use crate::handle::{Handle, ObjectHandle};
use crate::pseudo;

pub(crate) async fn lookup(compound: &mut Compound<'_>, args: LookupArgs) -> Result<(), NfsStat4> {
    let found = find(compound, args.objname).await?;
    compound.set_current(found);
    Ok(())
}

async fn find(compound: &Compound<'_>, component: Component4) -> Result<Handle, NfsStat4> {
    let current = compound.current()?;
    let name = name(component)?;
    match current {
        Handle::Pseudo(node) => {
            let (namespace, caller) = (&compound.service.namespace, &compound.caller);
            let child = pseudo::child(namespace, *node, &name, caller).ok_or(NfsStat4::NoEnt)?;
            namespace.enter(child, caller)
        }
        Handle::Object(directory) => look_up(directory, &name).await.map(Handle::Object),
    }
}

/// The object behind a name in a directory of an export.
pub(super) async fn look_up(
    directory: &ObjectHandle,
    name: &vfs::Name,
) -> Result<ObjectHandle, NfsStat4> {
    let file_system = &directory.export.file_system;
    match file_system.lookup(&directory.who, directory.id, name).await {
        Ok(attributes) => Ok(directory.at(attributes.id)),
        Err(error) => Err(status_of_lookup(error, directory).await),
    }
}
