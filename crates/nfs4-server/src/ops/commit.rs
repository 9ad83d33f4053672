//! COMMIT (RFC 8881, section 18.3).

use nfs4::{CommitArgs, CommitResOk, NfsStat4, Verifier4};

use crate::compound::Compound;
use crate::status::OrStatus;

pub(crate) async fn commit(
    compound: &mut Compound<'_>,
    args: CommitArgs,
) -> Result<CommitResOk, NfsStat4> {
    let object = compound.current_object(NfsStat4::IsDir)?;
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(NfsStat4::Inval);
    }
    let file_system = &object.export.file_system;
    let done = file_system
        .commit(object.id, args.offset, args.count)
        .await
        .or_status()?;
    Ok(CommitResOk {
        writeverf: Verifier4(done.verifier.0),
    })
}
