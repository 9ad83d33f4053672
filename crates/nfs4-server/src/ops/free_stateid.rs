//! FREE_STATEID: a client releases a lock state that it no longer needs (RFC 8881, section 18.38).

use nfs4::{FreeStateidArgs, NfsStat4};

use crate::compound::Compound;
use crate::status::OrStatus;

pub(crate) async fn free_stateid(
    compound: &mut Compound<'_>,
    args: FreeStateidArgs,
) -> Result<(), NfsStat4> {
    let session = compound.session()?;
    let service = compound.service;
    let stateid = compound.substitute(args.stateid)?;
    let (file, owner) = service.state().freeable_lock(session.client, &stateid)?;
    let _gate = service.gates.pass(session.client, file).await;
    if service
        .file_system(file)
        .holds_lock(file.object, &owner)
        .await
        .or_status()?
    {
        return Err(NfsStat4::LocksHeld);
    }
    service.state().free_lock(session.client, &stateid);
    Ok(())
}
