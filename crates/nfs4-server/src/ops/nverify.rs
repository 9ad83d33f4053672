//! NVERIFY: the COMPOUND continues only if the current object has other attributes (RFC 8881, section 18.15).

use nfs4::{NfsStat4, NverifyArgs};

use super::verify::are_same;
use crate::compound::Compound;

pub(crate) async fn nverify(
    compound: &mut Compound<'_>,
    args: NverifyArgs,
) -> Result<(), NfsStat4> {
    if are_same(compound, &args.obj_attributes).await? {
        Err(NfsStat4::Same)
    } else {
        Ok(())
    }
}
