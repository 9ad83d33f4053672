//! CLOSE (RFC 8881, section 18.2).

use nfs4::{CloseArgs, CloseResOk, NfsStat4, Stateid4};
use vfs::Share;

use crate::compound::Compound;
use crate::status::OrStatus;

pub(crate) async fn close(
    compound: &mut Compound<'_>,
    args: CloseArgs,
) -> Result<CloseResOk, NfsStat4> {
    let session = compound.session()?;
    let service = compound.service;
    let file = compound.current_object(NfsStat4::BadStateid)?.key();
    let stateid = compound.substitute(args.open_stateid)?;
    let _gate = service.gates.pass(session.client, file).await;
    let open = service.state().open_file(session.client, &stateid, file)?;
    let _ending = service.end_uses(&open, Share::default()).await;
    // Writes that went directly to data servers must be visible before the file counts as closed.
    let layout = service.state().layout_without(&open, None);
    service.release(layout.into_iter().collect()).await;
    // The file system answers when the guarantees of closing hold. Until then the open stays.
    service
        .file_system(file)
        .close(file.object, &open.owner)
        .await
        .or_status()?;
    let releases = service.state().remove_open(&open);
    service.release(releases).await;
    compound.current_stateid = None;
    Ok(CloseResOk {
        open_stateid: Stateid4::INVALID,
    })
}
