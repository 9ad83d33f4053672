//! Shared by the operations on names in directories: names, changes, and the errors for a filehandle of the wrong kind.

use nfs4::{ChangeInfo4, Component4, NfsStat4};
use vfs::{DirectoryChange, Error, Name, ObjectKind};

use crate::handle::ObjectHandle;
use crate::status::{status_of, status_of_name};

/// The name from a client.
///
/// # Errors
/// `INVAL` for none, `NAMETOOLONG`, `BADNAME` for `.` and `..`, `BADCHAR`.
pub(super) fn name(component: Component4) -> Result<Name, NfsStat4> {
    Name::new(component.0).map_err(status_of_name)
}

/// The change of a directory, or of an object with extended attributes. File systems report the versions directly
/// before and after, so the change is atomic.
pub(super) fn change_info(change: DirectoryChange) -> ChangeInfo4 {
    ChangeInfo4 {
        atomic: true,
        before: change.before.0,
        after: change.after.0,
    }
}

/// The status of an operation that needs a directory and may not answer `SYMLINK` to a symbolic link
/// (RFC 8881, section 15.2: all but LOOKUP and LOOKUPP).
pub(super) fn status_in_directory(error: Error) -> NfsStat4 {
    match error {
        Error::IsSymlink => NfsStat4::NotDir,
        error => status_of(&error),
    }
}

/// The status of LOOKUP and LOOKUPP, which have a separate error for symbolic links (RFC 8881, section 15.2).
pub(super) async fn status_of_lookup(error: Error, directory: &ObjectHandle) -> NfsStat4 {
    if error != Error::NotDirectory {
        return status_of(&error);
    }
    match directory.export.file_system.attributes(directory.id).await {
        Ok(attributes) if attributes.kind == ObjectKind::Symlink => NfsStat4::Symlink,
        _ => NfsStat4::NotDir,
    }
}
