//! Names and directories: finding, listing, making, removing, renaming and linking.
//!
//! A name is one entry row at its directory and one link row at its object; both change in the same
//! batch, together with the directory's counts. Data is none of this module's business.

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

/// A directory's attributes, for one who may search it.
fn searchable(who: &Credentials, id: ObjectId, row: &ObjectRow) -> Result<Attributes> {
    row.directory()?;
    let attributes = row.attributes(id);
    if allows(who, &attributes, EXECUTE) {
        Ok(attributes)
    } else {
        Err(Error::AccessDenied)
    }
}

/// Refuses one who may not change the entries of a directory.
fn check_changeable(who: &Credentials, directory: &Attributes) -> Result<()> {
    if allows(who, directory, WRITE | EXECUTE) {
        Ok(())
    } else {
        Err(Error::AccessDenied)
    }
}

/// What to say when a name leads to an object that is not there, which no sequence of batches can leave.
fn dangling() -> Error {
    Error::Io("a name leads to an object that does not exist; run the check".into())
}
