//! VERIFY: the COMPOUND continues only if the current object has these attributes (RFC 8881, section 18.31).

use nfs4::{Attributes4, Fattr4, NfsStat4, VerifyArgs};

use super::getattr::current_attributes;
use crate::attributes::{check_comparable, check_mode};
use crate::compound::Compound;

pub(crate) async fn verify(compound: &mut Compound<'_>, args: VerifyArgs) -> Result<(), NfsStat4> {
    if are_same(compound, &args.obj_attributes).await? {
        Ok(())
    } else {
        Err(NfsStat4::NotSame)
    }
}

/// Whether the current object has these attributes. They are compared as values, because bitmaps have several
/// encodings.
pub(super) async fn are_same(
    compound: &mut Compound<'_>,
    theirs: &Fattr4,
) -> Result<bool, NfsStat4> {
    compound.current()?;
    check_comparable(&theirs.attrmask, compound.minor_version)?;
    let assumed = Attributes4::decode(theirs).map_err(|error| error.status())?;
    assumed.mode.map(check_mode).transpose()?;
    let actual = current_attributes(compound, &theirs.attrmask).await?;
    let actual = Attributes4::decode(&actual).map_err(|_| NfsStat4::ServerFault)?;
    Ok(assumed == actual)
}
