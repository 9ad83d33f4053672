//! RECLAIM_COMPLETE: a client has reclaimed all it wants, or had nothing (RFC 8881, section 18.51).

use nfs4::{NfsStat4, ReclaimCompleteArgs};

use crate::compound::Compound;

pub(crate) async fn reclaim_complete(
    compound: &mut Compound<'_>,
    args: ReclaimCompleteArgs,
) -> Result<(), NfsStat4> {
    let session = compound.session()?;
    if args.one_fs {
        // No file system of this server moves in from another one, so there is nothing to end.
        compound.current()?;
        return Ok(());
    }
    let service = compound.service;
    let owner = service.state().reclaim_complete(session.client)?;
    // From here on the client may hold state, so the next incarnation must know it.
    service.records.add(owner).await.map_err(|error| {
        tracing::error!(%error, "cannot record a client; its locks would be lost in a restart");
        NfsStat4::ServerFault
    })
}
