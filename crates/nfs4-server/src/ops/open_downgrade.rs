//! OPEN_DOWNGRADE (RFC 8881, section 18.18).

use nfs4::{NfsStat4, OpenDowngradeArgs, OpenDowngradeResOk};

use super::open::share_of;
use crate::compound::Compound;
use crate::status::OrStatus;

pub(crate) async fn open_downgrade(
    compound: &mut Compound<'_>,
    args: OpenDowngradeArgs,
) -> Result<OpenDowngradeResOk, NfsStat4> {
    let session = compound.session()?;
    let service = compound.service;
    let file = compound.current_object(NfsStat4::BadStateid)?.key();
    let share = share_of(args.share_access, args.share_deny)?;
    let stateid = compound.substitute(args.open_stateid)?;
    let _gate = service.gates.pass(session.client, file).await;
    let open = {
        let state = service.state();
        let open = state.open_file(session.client, &stateid, file)?;
        if !state.may_downgrade(&open, share) {
            return Err(NfsStat4::Inval);
        }
        open
    };
    let _ending = service.end_uses(&open, share).await;
    let layout = service.state().layout_without(&open, Some(share));
    service.release(layout.into_iter().collect()).await;
    service
        .file_system(file)
        .downgrade(file.object, &open.owner, share)
        .await
        .or_status()?;
    let stateid = service.state().record_downgrade(&open, share)?;
    compound.current_stateid = Some(stateid);
    Ok(OpenDowngradeResOk {
        open_stateid: stateid,
    })
}
