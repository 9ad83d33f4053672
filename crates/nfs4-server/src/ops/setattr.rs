//! SETATTR: sets attributes of the current object (RFC 8881, section 18.30).

use nfs4::{Bitmap4, NfsStat4, SetattrArgs, SetattrRes};
use vfs::Authority;

use super::io::right;
use crate::attributes::to_change;
use crate::compound::Compound;
use crate::state::StateidUse;
use crate::status::OrStatus;

pub(crate) async fn setattr(compound: &mut Compound<'_>, args: SetattrArgs) -> SetattrRes {
    match set(compound, args).await {
        Ok(attrsset) => SetattrRes {
            status: NfsStat4::Ok,
            attrsset,
        },
        // File systems change all attributes or none.
        Err(status) => SetattrRes {
            status,
            attrsset: Bitmap4::EMPTY,
        },
    }
}

/// Sets attributes and returns which. The stateid counts only for the size, which is a kind of write.
async fn set(compound: &mut Compound<'_>, args: SetattrArgs) -> Result<Bitmap4, NfsStat4> {
    let object = compound.current_writable()?;
    let (set, attrsset) = to_change(&args.obj_attributes)?;
    let authority = if set.size.is_some() {
        right(compound, &object, args.stateid, StateidUse::Write)?.authority(&object.who)
    } else {
        Authority::Credentials(&object.who)
    };
    let file_system = &object.export.file_system;
    file_system
        .set_attributes(authority, object.id, &set)
        .await
        .or_status()?;
    Ok(attrsset)
}
