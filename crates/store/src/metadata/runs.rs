//! Scans of the names of a directory, through the cache of runs if possible.

use std::sync::Arc;

use super::{MetadataError, Table, View};
use crate::malformed::Malformed;
use crate::run_cache::{Found, Group, Place, Run};

/// The maximum of row bytes in a run, so that a change invalidates little.
const RUN_BYTES: usize = 32 << 10;
/// At least this many rows are read if they exist; otherwise runs would be short after small pages.
const LEAST_ROWS: usize = 128;

impl View<'_> {
    /// Rows of [`Table::Entries`] whose keys begin with `group`, in an interval that contains `from`: about `wanted` rows after
    /// `from`, or fewer.
    pub(crate) fn run(
        &self,
        group: Group,
        from: Place,
        wanted: usize,
    ) -> Result<Arc<Run>, MetadataError> {
        // A snapshot may be older or newer than the cache.
        if self.snapshot.is_some() {
            return self.read_run(group, from, (None, wanted)).map(Arc::new);
        }
        let cache = &self.metadata.cache;
        let then = cache.epoch();
        let gap_until = match cache.runs.find(&group, from) {
            Found::Run(run) => return Ok(run),
            Found::Gap(until) => until,
        };
        let run = self.read_run(group, from, (gap_until, wanted))?;
        let run = Arc::new(run);
        if let Some(then) = then {
            // As with rows: a batch that begins after this check finds the run when it takes the lock.
            cache.runs.keep(group, &run, || cache.is_still(then));
        }
        Ok(run)
    }

    fn read_run(
        &self,
        group: Group,
        from: Place,
        (gap_until, wanted): (Option<Place>, usize),
    ) -> Result<Run, MetadataError> {
        let mut run = Run::new(from);
        let (mut rows, mut bytes) = (0, 0);
        let first = [&group[..], &from].concat();
        for found in self.scan(Table::Entries, &group, &first) {
            let found = found?;
            let place = found.key().last_chunk::<7>();
            let place = *place.ok_or(Malformed("the key of an entry is too short"))?;
            let is_full = rows >= wanted.max(LEAST_ROWS) || bytes >= RUN_BYTES;
            if is_full || gap_until.is_some_and(|until| until <= place) {
                run.end_before(gap_until.map_or(place, |until| until.min(place)));
                return Ok(run);
            }
            run.push(place, found.value());
            rows += 1;
            bytes += found.value().len();
        }
        if let Some(until) = gap_until {
            run.end_before(until);
        }
        Ok(run)
    }
}
