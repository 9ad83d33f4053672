//! Names and directories: finding, listing, creating, removing, renaming and linking.
//!
//! A name is one entry row of its directory and one link row of its object. Both change in the same
//! batch, together with the directory's counts. What must never enter: data.

mod arrival;
mod create;
mod link;
mod listing;
mod lookup;
mod names;
mod remove;
mod rename;
mod seal;

pub use arrival::Arrival;
pub(crate) use rename::Place;

use vfs::permission::{EXECUTE, WRITE, allows};
use vfs::{Attributes, Credentials, Error, ObjectId, Result};

use crate::rows::ObjectRow;

/// A directory's attributes, if the caller may search it.
fn searchable(who: &Credentials, id: ObjectId, row: &ObjectRow) -> Result<Attributes> {
    row.directory()?;
    let attributes = row.attributes(id);
    if allows(who, &attributes, EXECUTE) {
        Ok(attributes)
    } else {
        Err(Error::AccessDenied)
    }
}

/// Fails if the caller may not change the entries of a directory.
fn check_changeable(who: &Credentials, directory: &Attributes) -> Result<()> {
    if allows(who, directory, WRITE | EXECUTE) {
        Ok(())
    } else {
        Err(Error::AccessDenied)
    }
}

/// The error for a name whose object does not exist; no sequence of batches leaves such a name.
fn dangling() -> Error {
    Error::Io("a name leads to an object that does not exist; run the check".into())
}
