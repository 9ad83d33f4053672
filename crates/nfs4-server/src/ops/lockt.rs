//! LOCKT (RFC 8881, section 18.11).

use nfs4::{LocktArgs, LocktRes, NfsStat4};

use super::lock::{byte_range, denied, kind_of};
use crate::compound::Compound;
use crate::state::Reclaim;
use crate::status::OrStatus;

pub(crate) async fn lockt(compound: &mut Compound<'_>, args: LocktArgs) -> LocktRes {
    test(compound, &args).await.unwrap_or_else(LocktRes::Err)
}

async fn test(compound: &mut Compound<'_>, args: &LocktArgs) -> Result<LocktRes, NfsStat4> {
    let session = compound.session()?;
    let service = compound.service;
    let object = compound.current_object(NfsStat4::IsDir)?;
    let range = byte_range(args.offset, args.length)?;
    let now = service.now();
    let owner = {
        let mut state = service.state();
        state.admit(session.client, Reclaim::No, now)?;
        state.lock_owner(session.client, &args.owner.owner)?
    };
    let kind = kind_of(args.locktype);
    let conflict = object
        .export
        .file_system
        .test_lock(object.id, &owner, range, kind)
        .await;
    Ok(match conflict.or_status()? {
        None => LocktRes::Ok,
        Some(conflict) => LocktRes::Denied(denied(service, session.client, &conflict)),
    })
}
