//! READ (RFC 8881, section 18.22).

use nfs4::{NfsStat4, ReadArgs, ReadResOk};

use super::io::{IO_BYTES_MAX, right};
use crate::compound::Compound;
use crate::reply;
use crate::state::StateidUse;

pub(crate) async fn read(
    compound: &mut Compound<'_>,
    args: ReadArgs,
) -> Result<ReadResOk, NfsStat4> {
    let object = compound.current_object(NfsStat4::IsDir)?;
    let right = right(compound, &object, args.stateid, StateidUse::Read)?;
    let space = u32::try_from(compound.payload_space()).unwrap_or(u32::MAX);
    if space == 0 && args.count > 0 {
        // An empty result that is not at the end of the file would make the client repeat the READ.
        return Err(reply::too_big(compound));
    }
    let count = args.count.min(IO_BYTES_MAX).min(space);
    let access = right.access(&object.who);
    let file_system = &object.export.file_system;
    let data = file_system
        .read(access, object.id, args.offset, count)
        .await
        .map_err(|error| right.status(error))?;
    compound
        .service
        .observer
        .bytes_read(data.bytes.len() as u64);
    Ok(ReadResOk {
        eof: data.end_of_file,
        data: data.bytes,
    })
}
