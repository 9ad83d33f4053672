//! LOOKUP: makes the object with a name in the current directory current (RFC 8881, section 18.13).

use nfs4::{Component4, LookupArgs, NfsStat4};

use super::directory::{name, status_of_lookup};
use crate::compound::Compound;
use crate::handle::Handle;
use crate::pseudo;

pub(crate) async fn lookup(compound: &mut Compound<'_>, args: LookupArgs) -> Result<(), NfsStat4> {
    let found = find(compound, args.objname).await?;
    compound.set_current(found);
    Ok(())
}

async fn find(compound: &mut Compound<'_>, component: Component4) -> Result<Handle, NfsStat4> {
    let current = compound.current()?.clone();
    let name = name(component)?;
    match current {
        Handle::Pseudo(node) => {
            let (namespace, caller) = (&compound.service.namespace, &compound.caller);
            match pseudo::child(namespace, node, &name, caller) {
                Some(child) => namespace.enter(child, caller),
                None => match compound.service.junction(node, &name) {
                    Some(junction) => Ok(Handle::Absent(junction)),
                    None => Err(NfsStat4::NoEnt),
                },
            }
        }
        Handle::Object(directory) => {
            let file_system = &directory.export.file_system;
            match file_system
                .lookup(&directory.who, directory.id, &name)
                .await
            {
                Ok(attributes) => {
                    let object = directory.at(attributes.id);
                    compound.learn(&object, attributes);
                    Ok(Handle::Object(object))
                }
                Err(error) => Err(status_of_lookup(error, &directory).await),
            }
        }
        Handle::Absent(_) => Err(NfsStat4::Moved),
    }
}
