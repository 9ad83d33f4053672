//! Files that experiments write at one site and read and check at another.
//!
//! What must never enter: when this happens, and the measurements.

mod local;
mod material;
mod nfs;

pub(crate) use local::{LocalFolder, off_the_runtime};
pub(crate) use material::{Checksum, Material};
pub(crate) use nfs::NfsFolder;
