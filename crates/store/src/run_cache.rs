//! A cache of runs of consecutive rows: the names of directories that are being listed.
//!
//! A scan of the embedded store merges its tables row by row, which takes several times as long as the rest of
//! listing a directory. A run has all rows of one *group* in an interval of keys, so that a listing can continue in its
//! middle and after it. The runs of a group do not overlap. A changed row invalidates only the run that contains it.
//!
//! Bounded: when there are too many bytes, the runs of some group are dropped. This module does not know what a row means, or when rows
//! change; [`crate::row_cache`] does.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The common prefix of the keys of all rows of a group.
pub(crate) type Group = [u8; 8];

/// The rest of a row's key.
pub(crate) type Place = [u8; 7];

/// The approximate memory of a run in addition to its rows.
const OVERHEAD_BYTES: usize = 160;

/// All rows of a group in an interval of places.
#[derive(Debug)]
pub(crate) struct Run {
    from: Place,
    /// The first place after the interval; `None` when it extends to the end of the group.
    until: Option<Place>,
    /// For each row the place, the length in four bytes, and the bytes.
    rows: Vec<u8>,
}

impl Run {
    /// An interval that begins here, without rows yet.
    pub(crate) fn new(from: Place) -> Run {
        Run {
            from,
            until: None,
            rows: Vec::new(),
        }
    }

    /// Adds the next row.
    pub(crate) fn push(&mut self, place: Place, row: &[u8]) {
        // Invariant: rows are far below 4 GiB.
        let length = u32::try_from(row.len()).expect("a row is short");
        self.rows.extend_from_slice(&place);
        self.rows.extend_from_slice(&length.to_be_bytes());
        self.rows.extend_from_slice(row);
    }

    /// Ends the interval before the end of its group.
    pub(crate) fn end_before(&mut self, until: Place) {
        self.until = Some(until);
        self.rows.shrink_to_fit();
    }

    pub(crate) fn until(&self) -> Option<Place> {
        self.until
    }

    /// The rows starting at a place.
    pub(crate) fn rows_from(&self, from: Place) -> impl Iterator<Item = (Place, &[u8])> {
        let mut rest = &self.rows[..];
        std::iter::from_fn(move || {
            let (place, behind) = rest.split_first_chunk::<7>()?;
            let (length, behind) = behind.split_first_chunk::<4>()?;
            let (row, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            rest = behind;
            Some((*place, row))
        })
        .skip_while(move |(place, _)| *place < from)
    }

    fn covers(&self, place: Place) -> bool {
        self.from <= place && self.until.is_none_or(|until| place < until)
    }

    fn bytes(&self) -> usize {
        self.rows.len() + OVERHEAD_BYTES
    }
}

/// The result of a lookup.
#[derive(Debug)]
pub(crate) enum Found {
    /// The run that covers the place.
    Run(Arc<Run>),
    /// No run covers it; the next one begins here.
    Gap(Option<Place>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RunCache {
    kept: Mutex<Kept>,
    limit_bytes: usize,
}

#[derive(Debug, Default)]
struct Kept {
    groups: HashMap<Group, BTreeMap<Place, Arc<Run>>>,
    bytes: usize,
}

impl RunCache {
    /// A cache for about this many bytes.
    pub(crate) fn new(limit_bytes: usize) -> RunCache {
        RunCache {
            kept: Mutex::default(),
            limit_bytes,
        }
    }

    pub(crate) fn find(&self, group: &Group, place: Place) -> Found {
        let kept = self.kept();
        let Some(runs) = kept.groups.get(group) else {
            return Found::Gap(None);
        };
        match runs.range(..=place).next_back() {
            Some((_, run)) if run.covers(place) => Found::Run(Arc::clone(run)),
            _ => {
                let behind = (Bound::Excluded(place), Bound::Unbounded);
                Found::Gap(runs.range(behind).next().map(|(from, _)| *from))
            }
        }
    }

    /// Adds a run in a gap, if `is_true` says that no row has changed since it was read.
    pub(crate) fn keep(&self, group: Group, run: &Arc<Run>, is_true: impl FnOnce() -> bool) {
        let mut kept = self.kept();
        if run.bytes() > self.limit_bytes || !is_true() {
            return;
        }
        kept.bytes += run.bytes();
        let before = (kept.groups.entry(group).or_default()).insert(run.from, Arc::clone(run));
        kept.bytes -= before.map_or(0, |before| before.bytes());
        while kept.bytes > self.limit_bytes {
            let Some(other) = kept.groups.keys().next().copied() else {
                break;
            };
            kept.drop_group(&other);
        }
    }

    /// Drops the run that contains a changed row.
    pub(crate) fn forget(&self, group: &Group, place: Place) {
        let mut kept = self.kept();
        let Some(runs) = kept.groups.get_mut(group) else {
            return;
        };
        let covering = runs.range(..=place).next_back();
        let Some(from) = covering.and_then(|(from, run)| run.covers(place).then_some(*from)) else {
            return;
        };
        let forgotten = runs.remove(&from).map_or(0, |run| run.bytes());
        if runs.is_empty() {
            kept.groups.remove(group);
        }
        kept.bytes -= forgotten;
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn drop_group(&mut self, group: &Group) {
        let runs = self.groups.remove(group).into_iter().flatten();
        self.bytes -= runs.map(|(_, run)| run.bytes()).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u8) -> Place {
        [0, 0, 0, 0, 0, 0, number]
    }

    fn group(number: u8) -> Group {
        [number; 8]
    }

    /// A run with a row in every place.
    fn run(from: u8, until: Option<u8>) -> Arc<Run> {
        let mut run = Run::new(place(from));
        for number in from..until.unwrap_or(from + 3) {
            run.push(place(number), &[number]);
        }
        if let Some(until) = until {
            run.end_before(place(until));
        }
        Arc::new(run)
    }

    fn found(cache: &RunCache, number: u8) -> Result<Vec<u8>, Option<Place>> {
        match cache.find(&group(1), place(number)) {
            Found::Run(run) => Ok(run
                .rows_from(place(number))
                .map(|(_, row)| row[0])
                .collect()),
            Found::Gap(until) => Err(until),
        }
    }

    #[test]
    fn a_run_is_found_from_each_of_its_places() {
        let cache = RunCache::new(1 << 20);
        assert_eq!(found(&cache, 5), Err(None));
        cache.keep(group(1), &run(4, Some(7)), || true);
        cache.keep(group(1), &run(9, None), || true);
        cache.keep(group(2), &run(1, None), || true);
        assert_eq!(found(&cache, 3), Err(Some(place(4))));
        assert_eq!(found(&cache, 4), Ok(vec![4, 5, 6]));
        assert_eq!(found(&cache, 6), Ok(vec![6]));
        assert_eq!(found(&cache, 7), Err(Some(place(9))));
        assert_eq!(found(&cache, 10), Ok(vec![10, 11]));
        assert_eq!(found(&cache, 200), Ok(vec![]), "up to the end of the group");
    }

    #[test]
    fn a_changed_row_takes_its_run_along_and_no_other() {
        let cache = RunCache::new(1 << 20);
        cache.keep(group(1), &run(4, Some(7)), || true);
        cache.keep(group(1), &run(7, Some(9)), || true);
        cache.forget(&group(1), place(9));
        cache.forget(&group(2), place(5));
        assert!(found(&cache, 4).is_ok() && found(&cache, 7).is_ok());
        cache.forget(&group(1), place(6));
        assert_eq!(found(&cache, 4), Err(Some(place(7))));
        assert_eq!(found(&cache, 7), Ok(vec![7, 8]));
        cache.forget(&group(1), place(8));
        assert_eq!(cache.kept().bytes, 0);
        assert!(cache.kept().groups.is_empty());
    }

    #[test]
    fn what_has_changed_meanwhile_is_not_kept() {
        let cache = RunCache::new(1 << 20);
        cache.keep(group(1), &run(4, None), || false);
        assert_eq!(found(&cache, 4), Err(None));
    }

    #[test]
    fn memory_is_bounded() {
        let cache = RunCache::new(4096);
        for number in 0..100 {
            cache.keep(group(number), &run(number, None), || true);
            let kept = cache.kept();
            let all = kept.groups.values().flat_map(BTreeMap::values);
            assert_eq!(kept.bytes, all.map(|run| run.bytes()).sum::<usize>());
            assert!(0 < kept.bytes && kept.bytes <= 4096, "after {number}");
        }
    }
}
