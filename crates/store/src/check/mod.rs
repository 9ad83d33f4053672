//! Checks whether a store is consistent: every row and every data file is compared with all others.
//!
//! The store must not be open elsewhere. Tables are read in parallel in the order of object
//! identifiers, so memory grows only with the number of directories (about 40 bytes each) and with
//! the findings. With `repair`, derivable data is derived again, and data without a place is kept: objects
//! without a name get one in `lost+found`, data files and rows without meaning go to `lost-data`.

mod data;
mod examination;
mod marks;
mod objects;
mod report;
mod rescue;
#[cfg(test)]
mod tests;
mod tree;

use std::path::Path;

use self::examination::Examination;
pub use self::report::{Finding, Report};
use crate::error::StoreError;
use crate::layout::Layout;
use crate::metadata::Metadata;
use crate::open_store::{OpenStore, open_error, open_metadata, opening_error};
use crate::options::{Reserve, StoreOptions};
use crate::space::Headroom;
use crate::store::Store;

impl Store {
    /// Checks a store that is not open, and with `repair` repairs what it can. Without `repair`, no file of the
    /// store is opened for writing: the embedded store works on a copy of its journals in the directory for temporary
    /// files.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be opened or read at all; [`StoreError::Rotten`] when the disk has
    /// damaged the rows, see [`Store::give_up_damaged`].
    pub fn check(directory: &Path, repair: bool) -> Result<Report, StoreError> {
        let mut options = StoreOptions::new(directory);
        // A full disk is a reason for a check, and must not prevent it.
        options.reserve = Reserve::Bytes(0);
        let (layout, identity) = match repair {
            true => Layout::open(directory)?,
            false => Layout::open_unchanged(directory)?,
        };
        let restored = match repair {
            true => rescue::restore_foundations(&layout, identity.slot, &options)?,
            false => Vec::new(),
        };
        let metadata = match repair {
            true => open_metadata(&layout, &options)?,
            false => Metadata::open_unchanged(&layout.metadata(), options.cache_bytes)
                .map_err(|error| open_error(&layout, error))?,
        };
        let headroom = Headroom::new(layout.root(), &layout.data(), options.reserve)?;
        let store = OpenStore::load(&options, layout, identity, (metadata, headroom))?;
        let failed = |error: vfs::Error| opening_error(directory, &error);
        if repair {
            store.prepare_to_change().map_err(failed)?;
        }
        let mut examination = Examination::new(&store, repair);
        restored
            .into_iter()
            .for_each(|what| examination.note(what, true));
        let report = examination.run().map_err(failed)?;
        if repair {
            store.persist_alone().map_err(failed)?;
        }
        Ok(report)
    }

    /// For a store that is not open: cuts the rows before the place that the disk has damaged. All later changes
    /// are lost, even stable ones. Copies of whole files are kept in `lost-data`. Returns what was lost; empty
    /// if nothing is damaged. A repair has to follow, because data and tables may be newer than the rows.
    ///
    /// # Errors
    /// [`StoreError::Rotten`] when this is not possible either.
    pub fn give_up_damaged(directory: &Path) -> Result<Vec<String>, StoreError> {
        let (layout, identity) = Layout::open(directory)?;
        let lost = Metadata::give_up_damaged(&layout.metadata(), &layout.lost_data())
            .map_err(|error| open_error(&layout, error))?;
        if !lost.is_empty() {
            let options = StoreOptions::new(directory);
            rescue::skip_numbers(&layout, identity.slot, &options)?;
            rescue::void_sums(&layout, &options)?;
        }
        Ok(lost)
    }
}
