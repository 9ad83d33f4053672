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
    let given_up = service
        .state()
        .is_being_given_up(session.client, service.now());
    if let Some(name) = given_up {
        let mut exports = service.namespace.exports().iter();
        let holds = |held: vfs::Holdings| !held.of(std::slice::from_ref(&name)).is_empty();
        if exports.any(|export| holds(export.file_system.holdings())) {
            // What it gets from here on must not be taken for what it had.
            return Err(NfsStat4::Delay);
        }
    }
    let owner = service.state().reclaim_complete(session.client)?;
    // From here on the client may hold state, so the next incarnation must know it.
    service.records.add(owner).await.map_err(|error| {
        tracing::error!(%error, "cannot record a client; its locks would be lost in a restart");
        NfsStat4::ServerFault
    })
}
