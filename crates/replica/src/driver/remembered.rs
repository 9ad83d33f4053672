//! The control table as it is on the disk, for the next start.
//!
//! What must never enter: when it is written (`persistence`).

use bytes::Bytes;
use control::Proposal;
use store::Store;

use crate::state::wire;

/// Facts that say which controls were acknowledged here.
pub(super) const CONTROLS: &[u8] = b"control/";

/// Facts that say which controls were acknowledged before this replica left the view.
pub(super) const SET_ASIDE: &[u8] = b"set-aside/";

/// The control table as it was when this replica last ran.
pub(crate) struct Remembered {
    /// What it acknowledged.
    pub(crate) granted: Vec<Proposal>,
    /// What it had acknowledged before it left the view.
    pub(crate) set_aside: Vec<Proposal>,
}

/// Reads the control table from the disk.
pub(crate) fn load(store: &Store) -> vfs::Result<Remembered> {
    Ok(Remembered {
        granted: part(store, CONTROLS)?,
        set_aside: part(store, SET_ASIDE)?,
    })
}

fn part(store: &Store, part: &[u8]) -> vfs::Result<Vec<Proposal>> {
    let rows: Vec<(Bytes, Bytes)> = store.facts(part)?;
    rows.iter()
        .map(|(_, row)| wire::decode(row).map_err(|error| vfs::Error::Io(error.to_string())))
        .collect()
}
