//! SETATTR: sets attributes of the current object (RFC 8881, section 18.30).

use nfs4::{Attr, Bitmap4, NfsStat4, SetattrArgs, SetattrRes};
use vfs::{AccessCheck, Error, ObjectKind};

use super::io::{right, status_of_io};
use crate::attributes::to_change;
use crate::compound::Compound;
use crate::handle::ObjectHandle;
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

/// Sets attributes and returns which. The stateid matters only for the size, whose change is a kind of write.
async fn set(compound: &mut Compound<'_>, args: SetattrArgs) -> Result<Bitmap4, NfsStat4> {
    let object = compound.current_writable()?;
    let (mut set, mut attrsset) = to_change(&args.obj_attributes, compound.minor_version)?;
    // Without a guard, setting the same attributes again changes nothing.
    let who = match compound.is_guarded {
        true => compound.asking(&object.who),
        false => object.who.clone(),
    };
    // The stateid of a repeated request is unknown by now, but was valid.
    let right = match set.size.is_some() && !compound.is_repeat {
        true => Some(right(compound, &object, args.stateid, StateidUse::Write)?),
        false => None,
    };
    let mode_bits = AccessCheck::Credentials(&who);
    let access = (right.as_ref()).map_or(mode_bits, |right| right.access(&who));
    let file_system = &object.export.file_system;
    let outcome = file_system.set_attributes(access, object.id, &set).await;
    let attributes = if outcome == Err(Error::NotSupported)
        && set.mode.is_some()
        && is_symlink(&object).await?
    {
        // Clients set modes without checking the kind of the object. Symbolic links have no mode, so nothing is lost,
        // and the reply shows that it was not set.
        set.mode = None;
        attrsset.remove(Attr::Mode);
        file_system.set_attributes(access, object.id, &set).await
    } else {
        outcome
    };
    compound.learn(&object, attributes.map_err(status_of_io)?);
    Ok(attrsset)
}

async fn is_symlink(object: &ObjectHandle) -> Result<bool, NfsStat4> {
    let attributes = object
        .export
        .file_system
        .attributes(object.id)
        .await
        .or_status()?;
    Ok(attributes.kind == ObjectKind::Symlink)
}
