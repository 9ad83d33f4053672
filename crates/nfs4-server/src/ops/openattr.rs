//! OPENATTR: there are no named attributes (RFC 8881, section 18.17.4). Extended attributes have separate operations.

use nfs4::{NfsStat4, OpenattrArgs};

use crate::compound::Compound;

pub(crate) async fn openattr(compound: &mut Compound<'_>, _: OpenattrArgs) -> Result<(), NfsStat4> {
    compound.current()?;
    Err(NfsStat4::NotSupp)
}
