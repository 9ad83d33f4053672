//! SECINFO_NO_NAME: how the current object, or its parent directory, may be accessed (RFC 8881, section 18.45).

use nfs4::{NfsStat4, SecinfoNoNameArgs, SecinfoResOk, SecinfoStyle4};

use super::lookupp::parent;
use super::secinfo::answer;
use crate::compound::Compound;

pub(crate) async fn secinfo_no_name(
    compound: &mut Compound<'_>,
    args: SecinfoNoNameArgs,
) -> Result<SecinfoResOk, NfsStat4> {
    match args.style {
        SecinfoStyle4::CurrentFh => {
            compound.current()?;
        }
        SecinfoStyle4::Parent => {
            parent(compound).await.map_err(|status| match status {
                // This operation never answers SYMLINK (RFC 8881, section 15.2).
                NfsStat4::Symlink => NfsStat4::NotDir,
                status => status,
            })?;
        }
    }
    Ok(answer(compound))
}
