//! The layouts of this server by file, and the writes under way, under one lock.
//!
//! What must never enter: waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use vfs::ObjectId;

use super::LATER;
use super::held::{Held, fence};

/// What is known of one file.
pub(super) struct Place {
    pub(super) held: Option<Arc<Held>>,
    /// Before this time no layout is asked for: for reading, and for writing.
    pub(super) not_before: [Instant; 2],
    pub(super) used: Instant,
}

/// What this server knows of its own layouts, and of writes.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) places: BTreeMap<ObjectId, Place>,
    /// Writes at data servers that are under way, by file and number.
    pub(super) writes: BTreeMap<(ObjectId, u64), Arc<Held>>,
    pub(super) next_write: u64,
    /// How many writes to a file are under way through the home.
    pub(super) through_home: BTreeMap<ObjectId, usize>,
    /// Files of which a layout for writing is being asked for.
    pub(super) asked: BTreeSet<ObjectId>,
    /// How many layouts of a file are being fenced.
    pub(super) fencing: BTreeMap<ObjectId, usize>,
}

/// One less; of nothing, nothing is kept.
pub(super) fn decrement(counts: &mut BTreeMap<ObjectId, usize>, file: ObjectId) {
    if let Some(count) = counts.get_mut(&file) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&file);
        }
    }
}

impl Tables {
    pub(super) fn place(&mut self, file: ObjectId) -> &mut Place {
        let now = Instant::now();
        let place = self.places.entry(file).or_insert(Place {
            held: None,
            not_before: [now; 2],
            used: now,
        });
        place.used = now;
        place
    }

    /// The layouts under which writes before this one may still happen, and that are not fenced.
    pub(super) fn writing(&self, file: ObjectId, before: u64) -> impl Iterator<Item = &Arc<Held>> {
        let writes = self.writes.range((file, 0)..(file, before));
        let all = writes.map(|(_, held)| held);
        all.filter(|held| held.is_ended.get().is_none())
    }

    /// Has a layout fenced, unless that has begun.
    pub(super) fn distrust(&mut self, held: &Arc<Held>) {
        if held.is_ended.set(()).is_err() {
            return;
        }
        if let Some(place) = self.places.get_mut(&held.file) {
            place.held.take_if(|known| Arc::ptr_eq(known, held));
            place.not_before = [Instant::now() + LATER; 2];
        }
        *self.fencing.entry(held.file).or_default() += 1;
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(fence(held.tree.clone(), held.clone()));
        }
    }
}
