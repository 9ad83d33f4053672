//! GETATTR: the attributes of the current object (RFC 8881, section 18.7).

use nfs4::{Bitmap4, Fattr4, GetattrArgs, GetattrResOk, NfsStat4};

use crate::attributes::{AttributeEncoder, check_readable, of_absent, of_object};
use crate::compound::Compound;
use crate::handle::Handle;
use crate::pseudo;

pub(crate) async fn getattr(
    compound: &mut Compound<'_>,
    args: GetattrArgs,
) -> Result<GetattrResOk, NfsStat4> {
    compound.current()?;
    check_readable(&args.attr_request)?;
    let obj_attributes = current_attributes(compound, &args.attr_request).await?;
    Ok(GetattrResOk { obj_attributes })
}

/// The attributes of the current object that are in `request` and supported.
pub(super) async fn current_attributes(
    compound: &mut Compound<'_>,
    request: &Bitmap4,
) -> Result<Fattr4, NfsStat4> {
    match compound.current()?.clone() {
        Handle::Pseudo(node) => {
            let attributes = pseudo::attributes(compound.service, node);
            Ok(AttributeEncoder::for_pseudo(compound, node, request).encode(&attributes))
        }
        Handle::Object(object) => {
            let attributes = compound.attributes(&object).await?;
            of_object(compound, &object.export, &attributes, request).await
        }
        // All other attributes were already answered with MOVED.
        Handle::Absent(junction) => Ok(of_absent(&junction, request)),
    }
}
