//! Where files were made that some replica that takes part may not know yet.
//!
//! A close waits for that (rule 19). Memory grows with the number of files made since the slowest replica was last heard. Beyond a bound the oldest
//! are remembered together: then a close of any file waits for all of them.

use std::collections::{BTreeMap, HashMap};

use vfs::ObjectId;

/// At most this many are remembered one by one.
const REMEMBERED: usize = 65_536;

/// Files by the place in this replica's stream at which they were made.
#[derive(Debug, Default)]
pub(crate) struct Births {
    places: HashMap<ObjectId, u64>,
    files: BTreeMap<u64, ObjectId>,
    /// The last place of the files that are remembered together.
    together: u64,
}

impl Births {
    /// A file was made at a place. Places only grow.
    pub(crate) fn insert(&mut self, file: ObjectId, place: u64) {
        self.places.insert(file, place);
        self.files.insert(place, file);
        while self.files.len() > REMEMBERED {
            if let Some((place, file)) = self.files.pop_first() {
                self.places.remove(&file);
                self.together = place;
            }
        }
    }

    /// A file has lost its only name.
    pub(crate) fn remove(&mut self, file: ObjectId) {
        if let Some(place) = self.places.remove(&file) {
            self.files.remove(&place);
        }
    }

    /// All replicas that take part have applied this replica's stream up to here.
    pub(crate) fn known(&mut self, place: u64) {
        while let Some(first) = self.files.first_entry().filter(|one| *one.key() <= place) {
            self.places.remove(&first.remove());
        }
        if self.together <= place {
            self.together = 0;
        }
    }

    /// How far this replica's stream has to be applied before all replicas know a file, if some may not know it yet.
    pub(crate) fn of(&self, file: ObjectId) -> Option<u64> {
        let together = (self.together > 0).then_some(self.together);
        self.places.get(&file).copied().or(together)
    }

    /// How many are remembered one by one.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u64) -> ObjectId {
        ObjectId::from_u64(number)
    }

    #[test]
    fn a_birth_is_forgotten_when_everybody_knows_it() {
        let mut births = Births::default();
        for place in 1..=4 {
            births.insert(file(place), place);
        }
        births.remove(file(2));
        births.known(3);
        assert_eq!((births.of(file(3)), births.of(file(4))), (None, Some(4)));
        assert_eq!((births.len(), births.places.len()), (1, 1));
    }

    #[test]
    fn counterexample_43_births_are_bounded_and_none_is_taken_for_known() {
        let mut births = Births::default();
        let most = REMEMBERED as u64;
        for place in 1..=3 * most {
            births.insert(file(place), place);
        }
        assert_eq!(
            (births.len(), births.places.len()),
            (REMEMBERED, REMEMBERED)
        );
        assert_eq!(births.of(file(1)), Some(2 * most));
        assert_eq!(births.of(file(3 * most)), Some(3 * most));
        births.known(2 * most);
        assert_eq!(births.of(file(1)), None);
    }
}
