//! Contents at data servers that belong to nothing (rule 8): no row names them, and no decision or operation is about them. They may be
//! left by a crash, or by a home that was restored from a backup.
//!
//! Data servers list what they have. The listing comes first and rows are read second, because contents are only made under a stable row.
//! Contents that were unknown at every look for a day are removed by an intent.
//!
//! What must never enter: what becomes of contents that a row names.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pool::{ContentsId, DataServerNumber, Listing, Placement};
use vfs::Result;

use crate::driver::Driver;
use crate::striped::Striped;

/// Most unknown contents that are remembered. Others follow when these are removed.
const REMEMBERED: usize = 100_000;

/// Since when contents belong to nothing.
#[derive(Debug, Default)]
pub(crate) struct Unknown(Mutex<BTreeMap<(DataServerNumber, ContentsId), Seen>>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    first: Instant,
    last: Instant,
}

impl Unknown {
    fn known(&self, of: (DataServerNumber, ContentsId)) {
        self.table(|table| table.remove(&of));
    }

    /// Whether contents that are unknown now were unknown at every look for this long.
    fn is_due(&self, of: (DataServerNumber, ContentsId), now: Instant, after: Duration) -> bool {
        self.table(|table| {
            if table.len() >= REMEMBERED {
                // Contents that are not listed any more are gone.
                table.retain(|_, seen| now.duration_since(seen.last) < 2 * after);
            }
            if table.len() >= REMEMBERED && !table.contains_key(&of) {
                return false;
            }
            let new = Seen {
                first: now,
                last: now,
            };
            let seen = table.entry(of).or_insert(new);
            seen.last = now;
            let is_due = now.duration_since(seen.first) >= after;
            if is_due {
                table.remove(&of);
            }
            is_due
        })
    }

    fn table<T>(
        &self,
        work: impl FnOnce(&mut BTreeMap<(DataServerNumber, ContentsId), Seen>) -> T,
    ) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Striped {
    /// A data server has listed some of its contents. Returns how many of them have belonged to nothing for long enough and are removed
    /// now. Reads rows, and may block for that.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read; [`vfs::Error::Delay`] before the start.
    pub fn sweep(&self, server: DataServerNumber, listing: &Listing) -> Result<usize> {
        let driver = self.files.driver()?;
        if !driver.serves(server) {
            // Its contents may be those of another store, or it may serve another home.
            return Ok(0);
        }
        // Read before the rows: a decision that enters a row meanwhile is found in one of the two.
        let concerned = driver.concerned();
        let now = Instant::now();
        let mut gone = 0;
        for (contents, generation) in &listing.0 {
            let of = (server, *contents);
            if concerned.contains(contents) || is_named(driver, *contents)? {
                self.files.unknown.known(of);
            } else if self.files.unknown.is_due(of, now, self.files.sweep_after()) {
                driver.sweep(server, *contents, *generation);
                gone += 1;
            }
        }
        Ok(gone)
    }
}

/// Whether a row, or what is left of one, names these contents. An unreadable row may.
fn is_named(driver: &Driver, contents: ContentsId) -> Result<bool> {
    let stored = driver.rows().all_placements(contents.object)?;
    let mut placements = stored.iter().map(|stored| Placement::decode(stored));
    Ok(placements.any(|placement| {
        placement.map_or(true, |placement| placement.number == contents.placement)
    }))
}
