//! Files whose content some active replica lacks, and which of them still block the end of controls above them.
//!
//! Content that was written under a control blocks its end while the file is *exposed*: unshipped, and without own
//! control that every active replica has acknowledged. What must never enter: bytes.

use super::ControlCore;
use crate::moment::Moment;
use crate::name::ControlName;
use crate::own::OwnControl;
use crate::placed::Placed;
use crate::tree::{Remembered, Tree};
use std::collections::{BTreeMap, BTreeSet};
use vfs::ObjectId;

/// Unshipped files.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// For each file, the numbers of the controls that it was written under.
    unshipped: BTreeMap<ObjectId, BTreeSet<u64>>,
    exposed: Placed<ObjectId>,
    /// For each control, the number of exposed files that were written under it.
    exposed_under: BTreeMap<u64, u32>,
    /// Files to examine again, because their controls or their places have changed.
    stale: BTreeSet<ObjectId>,
}

impl Contents {
    pub(super) fn is_unshipped(&self, file: ObjectId) -> bool {
        self.unshipped.contains_key(&file)
    }

    pub(super) fn any_exposed_under(&self, number: u64) -> bool {
        self.exposed_under.contains_key(&number)
    }

    pub(super) fn any_exposed_below(&self, directory: ObjectId) -> bool {
        self.exposed.any_below(directory)
    }

    /// The file's controls or its place have changed.
    pub(super) fn note_change(&mut self, file: ObjectId) {
        if self.is_unshipped(file) {
            self.stale.insert(file);
        }
    }

    /// All files have to be examined again.
    pub(super) fn note_upheaval(&mut self) {
        self.stale.extend(self.unshipped.keys());
    }

    pub(super) fn next_stale(&mut self) -> Option<ObjectId> {
        self.stale.pop_first()
    }

    fn add_under(&mut self, file: ObjectId, number: u64) {
        let news = self.unshipped.entry(file).or_default().insert(number);
        if news && self.exposed.contains(file) {
            *self.exposed_under.entry(number).or_default() += 1;
        }
    }

    /// Removes, for a file, the controls that have ended since it was written.
    fn forget_ended(&mut self, file: ObjectId, lasts: impl Fn(u64) -> bool) {
        let exposed = self.exposed.contains(file);
        let Some(under) = self.unshipped.get_mut(&file) else {
            return;
        };
        for number in under.extract_if(.., |number| !lasts(*number)) {
            if exposed {
                discount(&mut self.exposed_under, number);
            }
        }
    }

    fn expose(&mut self, tree: &impl Tree, file: ObjectId) {
        let news = !self.exposed.contains(file);
        self.exposed.place(tree, file, [file]);
        let under = self.unshipped.get(&file).into_iter().flatten();
        for number in under.filter(|_| news) {
            *self.exposed_under.entry(*number).or_default() += 1;
        }
    }

    /// The file is not exposed any more. Returns whether it was exposed.
    fn protect(&mut self, file: ObjectId) -> bool {
        let was = self.exposed.remove(file);
        let under = self.unshipped.get(&file).into_iter().flatten();
        for number in under.filter(|_| was) {
            discount(&mut self.exposed_under, *number);
        }
        was
    }

    /// The number of remembered files and controls.
    pub(super) fn len(&self) -> usize {
        self.unshipped.values().map(|under| 1 + under.len()).sum()
    }
}

fn discount(exposed_under: &mut BTreeMap<u64, u32>, number: u64) {
    if let Some(count) = exposed_under.get_mut(&number) {
        *count -= 1;
        if *count == 0 {
            exposed_under.remove(&number);
        }
    }
}

impl ControlCore {
    /// Some active replica lacks content of a file, which was written under these controls.
    pub fn handle_data_unshipped(&mut self, file: ObjectId, under: &[ControlName]) {
        if !self.contents.is_unshipped(file) {
            self.contents.unshipped.entry(file).or_default();
            self.contents.stale.insert(file);
        }
        for name in under {
            if let Some(number) = self.own_number(*name) {
                self.contents.add_under(file, number);
            }
        }
        // All replicas may never have a file that is written all the time, while controls above it come and go.
        let own = &self.own;
        self.contents
            .forget_ended(file, |number| own.find(number).is_some());
    }

    /// Every active replica has the content of the file.
    pub fn handle_data_shipped(&mut self, now: Moment, tree: &impl Tree, file: ObjectId) {
        let tree = &Remembered::new(tree);
        self.contents.protect(file);
        self.contents.stale.remove(&file);
        if let Some(under) = self.contents.unshipped.remove(&file) {
            self.wake_writers(tree, file, &under);
        }
        self.run(now, tree);
    }

    /// Determines whether a file is exposed now.
    pub(super) fn review_contents(&mut self, tree: &impl Tree, file: ObjectId) {
        let Some(under) = self.contents.unshipped.get(&file) else {
            return;
        };
        if !self.own.at(file).any(|(_, own)| self.protects(own)) {
            self.contents.expose(tree, file);
            return;
        }
        let under = under.clone();
        if self.contents.protect(file) {
            self.wake_writers(tree, file, &under);
        }
    }

    /// Whether this own control of a file protects other controls from waiting: all replicas know where to ask for the file.
    pub(super) fn protects(&self, control: &OwnControl) -> bool {
        !self.settings.rules.release_when_narrower_known()
            || control.election.acknowledged_by_all(&self.view.active)
    }

    /// Controls that waited for the content of a file may not have to wait any more.
    fn wake_writers(&mut self, tree: &impl Tree, file: ObjectId, under: &BTreeSet<u64>) {
        if self.candidates.is_empty() {
            return;
        }
        let mut waiting = self.own.deep_above(tree, file);
        waiting.extend(self.own.at(file).map(|(number, _)| number));
        waiting.extend(under);
        for number in waiting {
            self.candidates.wake(number);
        }
    }
}
