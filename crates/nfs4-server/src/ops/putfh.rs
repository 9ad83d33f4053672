//! PUTFH: makes a filehandle the current one (RFC 8881, section 18.19).

use nfs4::{NfsStat4, PutfhArgs};

use crate::compound::Compound;

/// The later operations check whether the object still exists, so that PUTFH costs nothing.
pub(crate) async fn putfh(compound: &mut Compound<'_>, args: PutfhArgs) -> Result<(), NfsStat4> {
    let namespace = &compound.service.namespace;
    let handle =
        namespace
            .resolve(&args.object, &compound.caller)
            .map_err(|status| match status {
                // A client that may not use the export any more (RFC 8881, section 15.1.2.7).
                NfsStat4::Access => NfsStat4::Stale,
                status => status,
            })?;
    compound.set_current(handle);
    compound.is_from_root = false;
    Ok(())
}
