//! DESTROY_SESSION (RFC 8881, section 18.37).

use nfs4::{DestroySessionArgs, NfsStat4};

use crate::compound::Compound;

pub(crate) async fn destroy_session(
    compound: &mut Compound<'_>,
    args: DestroySessionArgs,
) -> Result<(), NfsStat4> {
    let own = compound
        .session
        .filter(|session| session.id == args.sessionid);
    if own.is_some() && !compound.is_last_operation() {
        return Err(NfsStat4::NotOnlyOp);
    }
    let own_slot = own.map(|session| session.slot);
    let connection = compound.connection.id();
    compound
        .service
        .state()
        .destroy_session(args.sessionid, connection, own_slot)
}
