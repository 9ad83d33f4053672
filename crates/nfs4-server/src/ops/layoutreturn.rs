//! LAYOUTRETURN: a client returns layouts (RFC 8881, section 18.44).

use nfs4::{
    LayoutIomode4, Layoutreturn4, LayoutreturnArgs, LayoutreturnFile4, LayoutreturnResOk, NfsStat4,
    Stateid4, layout_type,
};

use super::layoutget::layouts_here;
use crate::compound::Compound;

pub(crate) async fn layoutreturn(
    compound: &mut Compound<'_>,
    args: LayoutreturnArgs,
) -> Result<LayoutreturnResOk, NfsStat4> {
    let client = compound.session()?.client;
    let service = compound.service;
    if args.reclaim {
        // The layouts that a client had before a restart ended with it.
        return match service.state().in_grace() {
            true => Ok(LayoutreturnResOk { stateid: None }),
            false => Err(NfsStat4::NoGrace),
        };
    }
    match args.which {
        Layoutreturn4::File(file) => {
            let stateid = return_file(compound, &file, (args.layout_type, args.iomode)).await?;
            compound.current_stateid = stateid;
            return Ok(LayoutreturnResOk { stateid });
        }
        Layoutreturn4::Fsid => {
            let (object, _) = layouts_here(compound, args.layout_type)?;
            let tree = object.key().tree;
            let ended = service
                .state()
                .return_layouts(client, Some(tree), args.iomode);
            service.release(ended).await;
        }
        Layoutreturn4::All => {
            if args.layout_type != layout_type::NFSV4_1_FILES {
                return Err(NfsStat4::UnknownLayoutType);
            }
            let ended = service.state().return_layouts(client, None, args.iomode);
            service.release(ended).await;
        }
    }
    Ok(LayoutreturnResOk { stateid: None })
}

/// Returns the client's layouts of one file. Returns the stateid of what it keeps.
async fn return_file(
    compound: &Compound<'_>,
    file: &LayoutreturnFile4,
    (kind, iomode): (u32, LayoutIomode4),
) -> Result<Option<Stateid4>, NfsStat4> {
    let client = compound.session()?.client;
    let (object, _) = layouts_here(compound, kind)?;
    let ends = file.length == u64::MAX || file.offset.checked_add(file.length).is_some();
    if file.length == 0 || !ends {
        return Err(NfsStat4::Inval);
    }
    let stateid = compound.substitute(file.stateid)?;
    // Layouts are for whole files, so only whole files are returned.
    let whole = file.offset == 0 && file.length == u64::MAX;
    let service = compound.service;
    let (kept, ended) = {
        let mut state = service.state();
        state.return_layout(client, &stateid, object.key(), (iomode, whole))?
    };
    service.release(ended.into_iter().collect()).await;
    Ok(kept)
}
