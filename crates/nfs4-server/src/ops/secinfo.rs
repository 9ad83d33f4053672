//! SECINFO: how a name in the current directory may be accessed (RFC 8881, section 18.29).

use nfs4::{NfsStat4, Secinfo4, SecinfoArgs, SecinfoResOk};

use super::directory::{name, status_in_directory};
use crate::compound::Compound;
use crate::handle::Handle;
use crate::pseudo;

pub(crate) async fn secinfo(
    compound: &mut Compound<'_>,
    args: SecinfoArgs,
) -> Result<SecinfoResOk, NfsStat4> {
    let current = compound.current()?;
    let name = name(args.name)?;
    match current {
        // The flavor of the request does not matter here, because otherwise no client could ask for the right one.
        Handle::Pseudo(node) => {
            let (namespace, caller) = (&compound.service.namespace, &compound.caller);
            let is_there = pseudo::child(namespace, *node, &name, caller).is_some()
                || compound.service.junction(*node, &name).is_some();
            if !is_there {
                return Err(NfsStat4::NoEnt);
            }
        }
        Handle::Object(directory) => {
            let file_system = &directory.export.file_system;
            file_system
                .lookup(&directory.who, directory.id, &name)
                .await
                .map_err(status_in_directory)?;
        }
        Handle::Absent(_) => return Err(NfsStat4::Moved),
    }
    Ok(answer(compound))
}

/// Every export requires AUTH_SYS. The answer consumes the current filehandle (RFC 8881, section 2.6.3.1.1.8).
pub(super) fn answer(compound: &mut Compound<'_>) -> SecinfoResOk {
    compound.current = None;
    compound.current_stateid = None;
    SecinfoResOk {
        flavors: vec![Secinfo4::Flavor(oncrpc::AuthFlavor::SYS.0)],
    }
}
