//! Contents of files striped over the data servers of a pool, seen from the home of these files.
//!
//! A store takes [`Striped`] as the place for file bytes (`store::Elsewhere`). It chooses placements for new files, and reads and writes
//! through NFSv4.1 sessions with all data servers of a file in parallel. The pure core `pool::home` decides how contents are cut, punched
//! and removed. It makes an intent stable before it asks any data server. Data servers that answer carry the intent out now, and the others
//! before they serve again. Messages to data servers go through [`Control`], and their messages come back through [`Striped::receive`]. The
//! rules are numbered in `docs/design/striping.md`.
//!
//! What must never enter: names and attributes of files, access rights, and sockets between servers.

#![forbid(unsafe_code)]

mod by_layout;
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

/// For fuzzing: decodes arbitrary bytes as every kind of row that a home keeps. What decodes must encode to an equivalent row.
#[doc(hidden)]
pub fn decode_as_anything(bytes: &[u8]) {
    records::decode_as_anything(bytes);
}

pub use by_layout::ByLayout;
pub use control::Control;
pub use driver::was_started;
pub use moving::Moved;
pub use pace::Pace;
pub use settings::Settings;
pub use striped::Striped;
pub use view::{NewFiles, PoolView};
