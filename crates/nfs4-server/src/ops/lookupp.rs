//! LOOKUPP: makes the parent of the current directory current (RFC 8881, section 18.14).

use nfs4::NfsStat4;
use vfs::ObjectId;

use super::directory::status_of_lookup;
use crate::compound::Compound;
use crate::handle::Handle;
use crate::namespace::ROOT_NODE;

pub(crate) async fn lookupp(compound: &mut Compound<'_>) -> Result<(), NfsStat4> {
    let parent = parent(compound).await?;
    compound.set_current(parent);
    Ok(())
}

/// The parent of the current directory. The parent of an export's root is the pseudo directory above the one that the
/// root covers.
///
/// # Errors
/// `NOENT` for the root of the name space.
pub(super) async fn parent(compound: &Compound<'_>) -> Result<Handle, NfsStat4> {
    let namespace = &compound.service.namespace;
    let covered = match compound.current()? {
        Handle::Pseudo(node) => *node,
        Handle::Object(object) if object.id == ObjectId::ROOT => object.export.node,
        Handle::Absent(_) => return Err(NfsStat4::Moved),
        Handle::Object(object) => {
            let file_system = &object.export.file_system;
            return match file_system.parent(&object.who, object.id).await {
                Ok(attributes) => Ok(Handle::Object(object.at(attributes.id))),
                Err(error) => Err(status_of_lookup(error, object).await),
            };
        }
    };
    if covered == ROOT_NODE {
        return Err(NfsStat4::NoEnt);
    }
    Ok(Handle::Pseudo(namespace.node(covered).parent))
}
