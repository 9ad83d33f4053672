//! WRITE (RFC 8881, section 18.32).

use nfs4::{NfsStat4, StableHow4, Verifier4, WriteArgs, WriteResOk};
use vfs::Stability;

use super::io::{IO_BYTES_MAX, right, status_of_io};
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
    let stability = match args.stable {
        StableHow4::Unstable => Stability::Unstable,
        StableHow4::DataSync => Stability::Data,
        StableHow4::FileSync => Stability::File,
    };
    let authority = right.authority(&object.who);
    let file_system = &object.export.file_system;
    let written = file_system
        .write(authority, object.id, args.offset, data, stability)
        .await
        .map_err(status_of_io)?;
    if let Some(attributes) = written.attributes {
        compound.learn(&object, attributes);
    }
    compound
        .service
        .observer
        .bytes_written(u64::from(written.count));
    Ok(WriteResOk {
        count: written.count,
        committed: match written.stability {
            Stability::Unstable => StableHow4::Unstable,
            Stability::Data => StableHow4::DataSync,
            Stability::File => StableHow4::FileSync,
        },
        writeverf: Verifier4(written.verifier.0),
    })
}
