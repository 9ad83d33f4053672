//! The asker's side of copies: what it keeps of another home's objects, and until when that counts (rule 13).
//!
//! What must never enter: what the copies contain.

use control::Moment;
use std::collections::BTreeMap;
use vfs::ObjectId;

/// The answers kept about one object, by question.
#[derive(Clone, Debug)]
struct Copied<K, V> {
    /// Its place in the order of use.
    used: u64,
    answers: BTreeMap<K, (V, usize)>,
}

/// The answers kept about the objects of one run of a home. Without space, the least recently used object goes first.
#[derive(Clone, Debug)]
pub struct Copies<K, V> {
    /// They count until then, by this server's clock.
    valid_until: Moment,
    /// The last invalidation that it knows.
    told: u64,
    objects: BTreeMap<ObjectId, Copied<K, V>>,
    order: BTreeMap<u64, ObjectId>,
    used: u64,
    size: usize,
    size_max: usize,
}

impl<K: Ord, V> Copies<K, V> {
    /// No copies; the sum of sizes is at most `size_max`.
    #[must_use]
    pub fn new(size_max: usize) -> Copies<K, V> {
        Copies {
            valid_until: Moment::default(),
            told: 0,
            objects: BTreeMap::new(),
            order: BTreeMap::new(),
            used: 0,
            size: 0,
            size_max,
        }
    }

    /// Whether copies count.
    #[must_use]
    pub fn is_valid(&self, now: Moment) -> bool {
        now < self.valid_until
    }

    /// The kept answer, whether or not it counts.
    pub fn get(&mut self, object: ObjectId, key: &K) -> Option<&V> {
        let copied = self.objects.get_mut(&object)?;
        let (answer, _) = copied.answers.get(key)?;
        self.used += 1;
        self.order.remove(&copied.used);
        copied.used = self.used;
        self.order.insert(self.used, object);
        Some(answer)
    }

    /// The sum of the sizes of the kept answers.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Copies count until then at least.
    pub fn lease(&mut self, until: Moment) {
        self.valid_until = self.valid_until.max(until);
    }

    /// Takes the number of invalidations to this server when an answer was given. Whether a later invalidation has already arrived: then the answer must not be
    /// kept.
    pub fn has_crossed(&mut self, told: u64) -> bool {
        let has_crossed = told < self.told;
        self.told = self.told.max(told);
        has_crossed
    }

    /// Keeps an answer of this size about an object.
    pub fn keep(&mut self, object: ObjectId, key: K, answer: V, size: usize) {
        if size > self.size_max {
            return;
        }
        self.used += 1;
        let copied = self.objects.entry(object).or_insert_with(|| Copied {
            used: 0,
            answers: BTreeMap::new(),
        });
        self.order.remove(&copied.used);
        copied.used = self.used;
        self.order.insert(self.used, object);
        let before = copied.answers.insert(key, (answer, size));
        self.size += size;
        self.size -= before.map_or(0, |(_, size)| size);
        while self.size > self.size_max {
            let Some(oldest) = self.order.values().next().copied() else {
                break;
            };
            self.forget(oldest);
        }
    }

    /// This server is told that copies of an object do not count any more.
    pub fn told(&mut self, number: u64, object: ObjectId) {
        self.told = self.told.max(number);
        self.forget(object);
    }

    fn forget(&mut self, object: ObjectId) {
        let Some(copied) = self.objects.remove(&object) else {
            return;
        };
        self.order.remove(&copied.used);
        let sizes = copied.answers.values().map(|(_, size)| size);
        self.size -= sizes.sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_least_recently_goes_first() {
        let (one, two) = (ObjectId::from_u64(1), ObjectId::from_u64(2));
        let mut copies = Copies::new(10);
        copies.keep(one, 'a', "first", 4);
        copies.keep(two, 'a', "second", 4);
        copies.keep(two, 'a', "third", 5);
        assert_eq!(copies.size(), 9);
        assert_eq!(copies.get(one, &'a'), Some(&"first"));
        copies.keep(one, 'b', "fourth", 2);
        assert_eq!(copies.size(), 6);
        assert_eq!(copies.get(two, &'a'), None);
        copies.keep(two, 'a', "too large", 11);
        assert_eq!(copies.get(two, &'a'), None);
        copies.told(1, one);
        assert_eq!(copies.size(), 0);
        assert_eq!(copies.get(one, &'b'), None);
        assert!(copies.has_crossed(0) && !copies.has_crossed(1));
    }
}
