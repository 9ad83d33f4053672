//! LAYOUTCOMMIT: a client reports what it has written at data servers (RFC 8881, section 18.42).

use nfs4::{LayoutcommitArgs, LayoutcommitResOk, NfsStat4};

use super::layoutget::{layouts_here, status_of};
use crate::compound::Compound;

pub(crate) async fn layoutcommit(
    compound: &Compound<'_>,
    args: LayoutcommitArgs,
) -> Result<LayoutcommitResOk, NfsStat4> {
    let session = compound.session()?;
    let (object, layouts) = layouts_here(compound, args.layoutupdate.layout_type)?;
    let end = match args.last_write_offset {
        Some(last) => Some(last.checked_add(1).ok_or(NfsStat4::Inval)?),
        None => None,
    };
    if args.reclaim {
        // The home asks the data servers for writes before a restart, whichever client reports them.
        return match compound.service.state().in_grace() {
            true => Ok(LayoutcommitResOk { newsize: None }),
            false => Err(NfsStat4::NoGrace),
        };
    }
    let stateid = compound.substitute(args.stateid)?;
    let holder = {
        let state = compound.service.state();
        state.committed_layout(session.client, &stateid, object.key())?
    };
    let size = layouts.commit(object.id, holder, end).await;
    Ok(LayoutcommitResOk {
        newsize: Some(size.map_err(status_of)?),
    })
}
