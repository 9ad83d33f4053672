//! PUTPUBFH: makes the public filehandle current, which is the root (RFC 8881, section 18.20.3).

use nfs4::NfsStat4;

use super::putrootfh::putrootfh;
use crate::compound::Compound;

pub(crate) async fn putpubfh(compound: &mut Compound<'_>) -> Result<(), NfsStat4> {
    putrootfh(compound).await
}
