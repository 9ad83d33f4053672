//! LOCKU (RFC 8881, section 18.12).

use nfs4::{LockuArgs, LockuResOk, NfsStat4};

use super::lock::{byte_range, refusal};
use crate::compound::Compound;

pub(crate) async fn locku(
    compound: &mut Compound<'_>,
    args: LockuArgs,
) -> Result<LockuResOk, NfsStat4> {
    let session = compound.session()?;
    let service = compound.service;
    let object = compound.current_object(NfsStat4::IsDir)?;
    let range = byte_range(args.offset, args.length)?;
    let stateid = compound.substitute(args.lock_stateid)?;
    let file = object.key();
    let _gate = service.gates.pass(session.client, file).await;
    let grant = service.state().known_lock(session.client, &stateid, file)?;
    object
        .export
        .file_system
        .unlock(object.id, &grant.owner, range)
        .await
        .map_err(|error| refusal(&error, compound.connection.peer()))?;
    let stateid = service.state().record_lock(session.client, &grant, file)?;
    service.locks_changed(file);
    compound.current_stateid = Some(stateid);
    Ok(LockuResOk {
        lock_stateid: stateid,
    })
}
