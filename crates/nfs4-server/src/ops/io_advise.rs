//! IO_ADVISE: hints about the future use of a file (RFC 7862, section 15.5). The empty answer says that none is
//! followed.

use nfs4::{Bitmap4, IoAdviseArgs, IoAdviseResOk, NfsStat4};

use super::io::right;
use crate::compound::Compound;
use crate::state::StateidUse;

pub(crate) async fn io_advise(
    compound: &mut Compound<'_>,
    args: IoAdviseArgs,
) -> Result<IoAdviseResOk, NfsStat4> {
    let object = compound.current_object(NfsStat4::IsDir)?;
    right(compound, &object, args.stateid, StateidUse::Read)?;
    Ok(IoAdviseResOk {
        hints: Bitmap4::default(),
    })
}
