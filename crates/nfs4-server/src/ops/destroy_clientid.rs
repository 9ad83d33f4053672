//! DESTROY_CLIENTID (RFC 8881, section 18.50).

use nfs4::{DestroyClientidArgs, NfsStat4};

use crate::compound::Compound;
use crate::state::ClientId;

pub(crate) async fn destroy_clientid(
    compound: &mut Compound<'_>,
    args: DestroyClientidArgs,
) -> Result<(), NfsStat4> {
    let releases = compound
        .service
        .state()
        .destroy_client(ClientId(args.clientid))?;
    compound.service.release(releases).await;
    Ok(())
}
