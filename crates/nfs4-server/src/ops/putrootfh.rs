//! PUTROOTFH: makes the root of the name space current (RFC 8881, section 18.21).

use nfs4::NfsStat4;

use crate::compound::Compound;
use crate::namespace::ROOT_NODE;

pub(crate) async fn putrootfh(compound: &mut Compound<'_>) -> Result<(), NfsStat4> {
    let root = compound
        .service
        .namespace
        .enter(ROOT_NODE, &compound.caller)?;
    compound.set_current(root);
    compound.is_from_root = true;
    Ok(())
}
