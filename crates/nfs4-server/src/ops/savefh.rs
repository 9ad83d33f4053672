//! SAVEFH: saves current filehandle and stateid (RFC 8881, section 18.28).

use nfs4::NfsStat4;

use crate::compound::Compound;

pub(crate) async fn savefh(compound: &mut Compound<'_>) -> Result<(), NfsStat4> {
    compound.saved = Some(compound.current()?.clone());
    compound.saved_stateid = compound.current_stateid;
    Ok(())
}
