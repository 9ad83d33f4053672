//! Whether a caller may access a file's data: permission bits first, then the denials of other opens.

use vfs::permission::{EXECUTE, READ, WRITE, granted};
use vfs::{Credentials, Error, ObjectId, OwnedAccessCheck, Result};

use crate::open_store::OpenStore;
use crate::rows::ObjectRow;

/// Whether `who` may read the data of a file. A file with only execute permission can be read as well,
/// because a client has to page it in; the client's own kernel keeps its users from reading it.
pub(crate) fn may_read(who: &Credentials, id: ObjectId, file: &ObjectRow) -> bool {
    granted(who, &file.attributes(id)) & (READ | EXECUTE) != 0
}

/// Whether `who` may write the data of a file.
pub(crate) fn may_write(who: &Credentials, id: ObjectId, file: &ObjectRow) -> bool {
    granted(who, &file.attributes(id)) & WRITE != 0
}

impl OpenStore {
    /// Refuses a read unless an open, or the permissions and the other opens, allow it.
    pub(crate) fn check_read(
        &self,
        access: &OwnedAccessCheck,
        id: ObjectId,
        row: &ObjectRow,
    ) -> Result<()> {
        let may = || may_read(&access.who, id, row);
        check(access, row, may, || self.shares().denies_read(id))
    }

    /// Refuses a write unless an open, or the permissions and the other opens, allow it.
    pub(crate) fn check_write(
        &self,
        access: &OwnedAccessCheck,
        id: ObjectId,
        row: &ObjectRow,
    ) -> Result<()> {
        let may = || may_write(&access.who, id, row);
        check(access, row, may, || self.shares().denies_write(id))
    }
}

fn check(
    access: &OwnedAccessCheck,
    row: &ObjectRow,
    may: impl FnOnce() -> bool,
    denied: impl FnOnce() -> bool,
) -> Result<()> {
    row.file()?;
    if access.opened {
        return Ok(());
    }
    if !may() {
        return Err(Error::AccessDenied);
    }
    match denied() {
        true => Err(Error::ShareDenied),
        false => Ok(()),
    }
}
