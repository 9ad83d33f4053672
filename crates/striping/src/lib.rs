//! Contents of files striped over the data servers of a pool, as the home of these files sees them.
//!
//! [`Striped`] is what a store is handed as the place where files have their bytes (`store::Elsewhere`). It chooses placements for new
//! files, reads and writes through NFSv4.1 sessions with all data servers of a file side by side, and has contents cut, punched and
//! removed as the pure core `pool::home` decides: an intent that is stable before any data server is asked, carried out now by those
//! that answer, and by the others before they serve again. What that needs to say to data servers goes through [`Control`], and
//! what they say comes back through [`Striped::receive`]. The rules are numbered in `docs/design/striping.md`.
//!
//! What must never enter: names and attributes of files, who may do what with them, and sockets between servers.

#![forbid(unsafe_code)]

mod contents;
mod control;
mod driver;
mod file_system;
mod free_space;
mod layouts;
mod moving;
mod pace;
mod ranges;
mod records;
mod replacing;
mod sessions;
mod settings;
mod settling;
mod striped;
mod sweeping;
mod view;

/// Takes arbitrary bytes apart as every kind of row that a home keeps, for fuzzing. What decodes must encode to a row that says the same.
#[doc(hidden)]
pub fn decode_as_anything(bytes: &[u8]) {
    records::decode_as_anything(bytes);
}

pub use control::Control;
pub use driver::was_started;
pub use moving::Moved;
pub use pace::Pace;
pub use settings::Settings;
pub use striped::Striped;
pub use view::{NewFiles, PoolView};
