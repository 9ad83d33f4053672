//! GETFH: the current filehandle (RFC 8881, section 18.8).

use nfs4::{GetfhResOk, NfsStat4};

use crate::compound::Compound;

pub(crate) async fn getfh(compound: &mut Compound<'_>) -> Result<GetfhResOk, NfsStat4> {
    let handle = compound.current()?;
    let handle = handle.file_handle(&compound.service.namespace)?;
    Ok(GetfhResOk {
        object: handle.encode(),
    })
}
