//! RESTOREFH: restores the saved filehandle and stateid (RFC 8881, section 18.27).

use nfs4::NfsStat4;

use crate::compound::Compound;

pub(crate) async fn restorefh(compound: &mut Compound<'_>) -> Result<(), NfsStat4> {
    let saved = compound.saved.clone().ok_or(NfsStat4::NoFileHandle)?;
    compound.current = Some(saved);
    compound.current_stateid = compound.saved_stateid;
    Ok(())
}
