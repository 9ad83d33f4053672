//! WRITE (RFC 8881, section 18.32).

use nfs4::{NfsStat4, WriteArgs, WriteResOk};

use super::io::{IO_BYTES_MAX, right, stability, status_of_io, write_result};
use crate::compound::Compound;
use crate::state::StateidUse;

pub(crate) async fn write(
    compound: &mut Compound<'_>,
    args: WriteArgs,
) -> Result<WriteResOk, NfsStat4> {
    if matches!(compound.current()?, crate::handle::Handle::Pseudo(_)) {
        return Err(NfsStat4::IsDir);
    }
    let object = compound.current_writable()?;
    let right = right(compound, &object, args.stateid, StateidUse::Write)?;
    let mut data = args.data;
    data.truncate(IO_BYTES_MAX as usize);
    let stability = stability(args.stable);
    let access = right.access(&object.who);
    let file_system = &object.export.file_system;
    let written = file_system
        .write(access, object.id, args.offset, data, stability)
        .await
        .map_err(status_of_io)?;
    compound
        .service
        .observer
        .bytes_written(u64::from(written.count));
    let result = write_result(&written);
    if let Some(attributes) = written.attributes {
        compound.learn(&object, attributes);
    }
    Ok(result)
}
