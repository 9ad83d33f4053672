//! DESTROY_CLIENTID (RFC 8881, section 18.50).

use nfs4::{DestroyClientidArgs, NfsStat4};

use crate::compound::Compound;
use crate::state::ClientId;

pub(crate) async fn destroy_clientid(
    compound: &mut Compound<'_>,
    args: DestroyClientidArgs,
) -> Result<(), NfsStat4> {
    let (service, client) = (compound.service, ClientId(args.clientid));
    let has_moved = service.has_moved(client);
    let departure = service.state().destroy_client(client, has_moved)?;
    compound.see_off(departure).await;
    Ok(())
}
