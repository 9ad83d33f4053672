//! LAYOUTGET: a client asks where the bytes of a file are, to read and write them there (RFC 8881, section 18.43).

use nfs4::{
    Deviceid4, FileLayout4, Layout4, LayoutContent4, LayoutIomode4, LayoutgetArgs, LayoutgetRes,
    LayoutgetResOk, NfsFh4, NfsStat4, layout_type,
};
use xdr::{Bytes, Writer};

use crate::compound::Compound;
use crate::handle::ObjectHandle;
use crate::layouts::{FileLayout, LayoutAccess, LayoutHolder, Layouts, NoLayout};
use crate::state::{LayoutEnd, Release};

/// The size of the list of layouts without the body of its only element.
const FRAME_BYTES: usize = 4 + (8 + 8 + 4) + (4 + 4);

pub(crate) async fn layoutget(compound: &mut Compound<'_>, args: LayoutgetArgs) -> LayoutgetRes {
    match get(compound, args).await {
        Ok(got) => {
            compound.current_stateid = Some(got.stateid);
            LayoutgetRes::Ok(got)
        }
        Err(status) => LayoutgetRes::Err(status),
    }
}

async fn get(compound: &Compound<'_>, args: LayoutgetArgs) -> Result<LayoutgetResOk, NfsStat4> {
    let session = compound.session()?;
    let service = compound.service;
    let object = compound.current_object(NfsStat4::LayoutUnavailable)?;
    let layouts = object.export.layouts.clone();
    let layouts = layouts.ok_or(NfsStat4::LayoutUnavailable)?;
    let access = check(&args)?;
    let stateid = compound.substitute(args.stateid)?;
    // The state that the layout depends on must stay until the layout is recorded.
    let _gate = service.gates.pass(session.client, object.key()).await;
    let holder = {
        let mut state = service.state();
        if state.in_grace() {
            // A client may still reclaim conflicting state. With this status clients do not wait.
            return Err(NfsStat4::BadLayout);
        }
        state.begin_layout(session.client, &stateid, object.key(), access)?
    };
    let given = layouts.layout(object.id, holder, access).await;
    let body = given.map_err(status_of).map(|layout| body_of(&layout));
    let fits = body.and_then(|body| {
        let size = FRAME_BYTES + body.len().next_multiple_of(4);
        let fits = size <= args.maxcount as usize;
        fits.then_some(body).ok_or(NfsStat4::TooSmall)
    });
    let body = match fits {
        Ok(body) => body,
        Err(status) => {
            let release = service.state().abandon_layout(holder);
            service.release(release.into_iter().collect()).await;
            return Err(status);
        }
    };
    let stateid = record(compound, &object, holder, access).await?;
    Ok(LayoutgetResOk {
        return_on_close: true,
        stateid,
        layouts: vec![Layout4 {
            offset: 0,
            length: u64::MAX,
            iomode: args.iomode,
            content: LayoutContent4 {
                layout_type: layout_type::NFSV4_1_FILES,
                body,
            },
        }],
    })
}

/// Records a layout from the home. If its client has returned everything in the meantime, tells the home again.
async fn record(
    compound: &Compound<'_>,
    object: &ObjectHandle,
    holder: LayoutHolder,
    access: LayoutAccess,
) -> Result<nfs4::Stateid4, NfsStat4> {
    let service = compound.service;
    let recorded = service.state().record_layout(holder, access);
    if recorded.is_err() {
        let ended = Release::Layout(object.key(), holder, LayoutEnd::Returned);
        service.release(vec![ended]).await;
    }
    recorded
}

/// The checks that need no other server.
fn check(args: &LayoutgetArgs) -> Result<LayoutAccess, NfsStat4> {
    if args.layout_type != layout_type::NFSV4_1_FILES {
        return Err(NfsStat4::UnknownLayoutType);
    }
    let ends = |length| length == u64::MAX || args.offset.checked_add(length).is_some();
    if args.length == 0
        || args.minlength > args.length
        || !ends(args.length)
        || !ends(args.minlength)
    {
        return Err(NfsStat4::Inval);
    }
    match args.iomode {
        LayoutIomode4::Read => Ok(LayoutAccess::Read),
        LayoutIomode4::ReadWrite => Ok(LayoutAccess::ReadWrite),
        LayoutIomode4::Any => Err(NfsStat4::BadIoMode),
    }
}

/// The status for a client without a layout. Only the one for a deleted file makes the application's I/O fail.
pub(super) fn status_of(reason: NoLayout) -> NfsStat4 {
    match reason {
        NoLayout::Recalled => NfsStat4::RecallConflict,
        NoLayout::ThroughServer => NfsStat4::BadLayout,
        NoLayout::Unavailable => NfsStat4::LayoutUnavailable,
        NoLayout::Gone => NfsStat4::Stale,
    }
}

fn body_of(layout: &FileLayout) -> Bytes {
    let handle = |handle: &Bytes| NfsFh4(handle.clone());
    let mut writer = Writer::new();
    writer.write(&FileLayout4 {
        deviceid: Deviceid4(layout.device.0),
        // Sparse packing, and COMMIT goes to the data servers: no flags.
        util: layout.stripe_unit & nfs4::file_layout_util::STRIPE_UNIT_SIZE,
        first_stripe_index: layout.first_index,
        pattern_offset: 0,
        fh_list: layout.handles.iter().map(handle).collect(),
    });
    writer.into_bytes()
}

/// The source of layouts for the tree of the current file.
pub(super) fn layouts_here(
    compound: &Compound<'_>,
    kind: u32,
) -> Result<(ObjectHandle, std::sync::Arc<dyn Layouts>), NfsStat4> {
    let object = compound.current_object(NfsStat4::UnknownLayoutType)?;
    let layouts = object.export.layouts.clone();
    let layouts = layouts.filter(|_| kind == layout_type::NFSV4_1_FILES);
    Ok((object, layouts.ok_or(NfsStat4::UnknownLayoutType)?))
}
