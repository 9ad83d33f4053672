//! What the scrub has found and how far it is, for display, metrics and alarms.

mod pace;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use store::Store;
use tokio::sync::watch;
use vfs::ObjectId;

use crate::state::locks::{Table, TableGuard};
use crate::state::time::unix_seconds;
use pace::Pacer;

/// At most this many findings, and at most this many differing objects, are remembered.
const REMEMBERED: usize = 64;

/// The scrub of one replica.
#[derive(Debug)]
pub(crate) struct Scrub {
    pub(crate) pacer: Pacer,
    /// How many runs were requested.
    pub(crate) asked: watch::Sender<u64>,
    /// Notified when a file was found damaged.
    pub(crate) damage: watch::Sender<u64>,
    state: Table<State>,
    /// Notified when a read of a file has failed.
    pub(crate) suspects: watch::Sender<u64>,
    /// Files that could not be read, each with whether its check has begun.
    looks: Table<BTreeMap<ObjectId, bool>>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Run>,
    runs: u64,
    last_finished_unix_s: Option<u64>,
    skipped: u64,
    found: u64,
    mended: u64,
    /// Objects that differ between copies while the right copy is unknown; each with the run that saw it last, and the difference.
    differing: BTreeMap<ObjectId, (u64, String)>,
    findings: VecDeque<FindingView>,
}

#[derive(Debug, Default)]
struct Run {
    objects: u64,
    read_before: u64,
}

/// The state of a replica's scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubView {
    /// A run is under way.
    pub running: bool,
    /// Objects that it has checked.
    pub objects: u64,
    /// Objects in the tree.
    pub objects_total: u64,
    /// Bytes of contents that it has read, also for others.
    pub read_bytes: u64,
    /// Runs that were finished since the start of the server.
    pub runs: u64,
    /// When the last run was finished, in seconds since 1970.
    pub last_finished_unix_s: Option<u64>,
    /// Files that this run, or else the last one, skipped because they were being changed.
    pub skipped: u64,
    /// Contents and objects found wrong here since the start.
    pub found: u64,
    /// Contents that were restored from a good copy since the start.
    pub mended: u64,
    /// Files whose content is damaged here now.
    pub damaged: u64,
    /// Objects that differ between copies now while the right copy is unknown.
    pub undecided: u64,
    /// The last findings, oldest first.
    pub findings: Vec<FindingView>,
}

/// Something that a scrub has found or repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingView {
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// A description, for display.
    pub what: String,
}

impl Scrub {
    pub(crate) fn new(rate: u64) -> Scrub {
        Scrub {
            pacer: Pacer::new(rate),
            asked: watch::Sender::new(0),
            damage: watch::Sender::new(0),
            suspects: watch::Sender::new(0),
            state: Table::default(),
            looks: Table::default(),
        }
    }

    /// Ends all checks, because the replica stops.
    pub(crate) fn stop(&self) {
        self.pacer.stop();
    }

    fn state(&self) -> TableGuard<'_, State> {
        self.state.lock()
    }

    /// A read of this file has failed: it is checked soon, unless a check is under way.
    pub(crate) fn suspect(&self, file: ObjectId) {
        self.looks().entry(file).or_insert(false);
        self.suspects.send_modify(|count| *count += 1);
    }

    /// The files whose checks have not begun; the caller begins them now.
    pub(crate) fn take_suspects(&self) -> Vec<ObjectId> {
        let mut looks = self.looks();
        let waiting = looks.iter_mut().filter(|(_, begun)| !**begun);
        let taken = waiting.map(|(file, begun)| {
            *begun = true;
            *file
        });
        taken.collect()
    }

    pub(crate) fn end_look(&self, file: ObjectId) {
        self.looks().remove(&file);
    }

    fn looks(&self) -> TableGuard<'_, BTreeMap<ObjectId, bool>> {
        self.looks.lock()
    }

    pub(crate) fn begin_run(&self) {
        let mut state = self.state();
        state.skipped = 0;
        state.running = Some(Run {
            objects: 0,
            read_before: self.pacer.read(),
        });
    }

    pub(crate) fn note_looked_at(&self, objects: u64) {
        if let Some(run) = &mut self.state().running {
            run.objects += objects;
        }
    }

    pub(crate) fn note_skipped(&self) {
        self.state().skipped += 1;
    }

    /// A run is over. Objects that differed before and did not differ in it are equal again.
    pub(crate) fn end_run(&self, finished: bool) {
        let mut state = self.state();
        state.running = None;
        if finished {
            let run = state.runs;
            state.differing.retain(|_, (seen, _)| *seen >= run);
            state.runs += 1;
            state.last_finished_unix_s = Some(unix_seconds());
        }
    }

    pub(crate) fn set_last_finished(&self, at_unix_s: u64) {
        self.state().last_finished_unix_s = Some(at_unix_s);
    }

    /// Something is wrong with the local copy.
    pub(crate) fn found(&self, what: String) {
        tracing::error!("the scrub found: {what}");
        let mut state = self.state();
        state.found += 1;
        state.remember(what);
    }

    /// A content is right again.
    pub(crate) fn mended(&self, what: String) {
        tracing::warn!("the scrub mended: {what}");
        let mut state = self.state();
        state.mended += 1;
        state.remember(what);
    }

    /// Copies differ, and the right one is unknown.
    pub(crate) fn undecided(&self, object: ObjectId, what: String) {
        let mut state = self.state();
        let run = state.runs;
        let known = state.differing.contains_key(&object);
        if !known && state.differing.len() >= REMEMBERED {
            return;
        }
        state.differing.insert(object, (run, what.clone()));
        if !known {
            tracing::error!("the scrub found: {what}");
            state.found += 1;
            state.remember(what);
        }
    }

    /// An object is the same everywhere.
    pub(crate) fn is_equal(&self, object: ObjectId) {
        let mut state = self.state();
        if !state.differing.is_empty() {
            state.differing.remove(&object);
        }
    }

    /// The present state; the store knows what is damaged.
    pub(crate) fn view(&self, store: &Store) -> ScrubView {
        let state = self.state();
        let run = state.running.as_ref();
        ScrubView {
            running: run.is_some(),
            objects: run.map_or(0, |run| run.objects),
            objects_total: store.statistics().objects,
            read_bytes: run.map_or(0, |run| self.pacer.read() - run.read_before),
            runs: state.runs,
            last_finished_unix_s: state.last_finished_unix_s,
            skipped: state.skipped,
            found: state.found,
            mended: state.mended,
            damaged: store.damaged().len() as u64,
            undecided: state.differing.len() as u64,
            findings: state.findings.iter().cloned().collect(),
        }
    }
}

impl State {
    fn remember(&mut self, what: String) {
        let at_unix_s = unix_seconds();
        if self.findings.len() >= REMEMBERED {
            self.findings.pop_front();
        }
        self.findings.push_back(FindingView { at_unix_s, what });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_does_not_see_again_is_equal() {
        let scrub = Scrub::new(1);
        let objects = [ObjectId::from_u64(1), ObjectId::from_u64(2)];
        scrub.begin_run();
        for object in objects {
            scrub.undecided(object, "differs".to_owned());
        }
        scrub.end_run(true);
        assert_eq!(scrub.state().differing.len(), 2);
        scrub.begin_run();
        scrub.undecided(objects[1], "differs".to_owned());
        scrub.end_run(true);
        let state = scrub.state();
        assert_eq!(state.differing.keys().collect::<Vec<_>>(), [&objects[1]]);
        assert_eq!((state.found, state.runs), (2, 2));
    }
}
