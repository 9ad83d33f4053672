//! The commands of the program `testbed`, one per file.
//!
//! What must never enter: anything a test cannot also do through the library.

pub(crate) mod shell;
pub(crate) mod wan;
pub(crate) mod wan_measure;
