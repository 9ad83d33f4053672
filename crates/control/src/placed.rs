//! Finds which of some items are below a directory: one look-up instead of a walk through all of them.
//!
//! The ancestry table answers this for all controls and follows renames. This smaller index is for the few items in
//! flight, which are simply placed again when something above them moves.

use crate::tree::Tree;
use std::collections::BTreeMap;
use vfs::ObjectId;

/// Items with a key, each at one or several objects. They are counted at every directory above those.
#[derive(Clone, Debug)]
pub(crate) struct Placed<K> {
    above: BTreeMap<K, Vec<ObjectId>>,
    below: BTreeMap<ObjectId, u32>,
}

impl<K> Default for Placed<K> {
    fn default() -> Placed<K> {
        Placed {
            above: BTreeMap::new(),
            below: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Copy> Placed<K> {
    /// Counts an item at the current places of its objects, and no longer at the earlier ones.
    pub(crate) fn place(
        &mut self,
        tree: &impl Tree,
        key: K,
        objects: impl IntoIterator<Item = ObjectId>,
    ) {
        self.remove(key);
        let objects = objects.into_iter();
        let paths = objects.map(|object| tree.above(object));
        let directories: Vec<ObjectId> = paths.flat_map(|path| path.to_vec()).collect();
        for directory in &directories {
            *self.below.entry(*directory).or_default() += 1;
        }
        self.above.insert(key, directories);
    }

    /// Removes an item. Returns whether it was there.
    pub(crate) fn remove(&mut self, key: K) -> bool {
        let Some(directories) = self.above.remove(&key) else {
            return false;
        };
        for directory in directories {
            if let Some(count) = self.below.get_mut(&directory) {
                *count -= 1;
                if *count == 0 {
                    self.below.remove(&directory);
                }
            }
        }
        true
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.above.contains_key(&key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.above.keys().copied()
    }

    /// Whether any item is below a directory.
    pub(crate) fn any_below(&self, directory: ObjectId) -> bool {
        self.below.contains_key(&directory)
    }

    /// Whether any item except `key` is below a directory.
    pub(crate) fn others_below(&self, directory: ObjectId, key: K) -> bool {
        let counted = self.below.get(&directory).copied().unwrap_or(0) as usize;
        let own = self.above.get(&key).into_iter().flatten();
        counted > own.filter(|other| **other == directory).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Line;

    impl Tree for Line {
        fn parents(&self, object: ObjectId) -> Vec<ObjectId> {
            let raw = object.as_u64();
            let parent = (raw > 1).then(|| ObjectId::from_u64(raw - 1));
            parent.into_iter().collect()
        }
    }

    #[test]
    fn a_thing_does_not_count_against_itself() {
        let id = ObjectId::from_u64;
        let mut placed = Placed::default();
        placed.place(&Line, 'a', [id(3), id(5)]);
        assert!(placed.any_below(id(2)) && !placed.others_below(id(2), 'a'));
        placed.place(&Line, 'b', [id(3)]);
        assert!(placed.others_below(id(2), 'a') && !placed.others_below(id(4), 'a'));
        placed.place(&Line, 'a', [id(2)]);
        assert!(!placed.any_below(id(4)), "it has moved");
        placed.remove('a');
        placed.remove('b');
        assert!(placed.below.is_empty() && placed.above.is_empty());
    }
}
