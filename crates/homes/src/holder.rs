//! The home's side of copies: which copies one other metadata server may have, what it was told of them, and until when it relies on them
//! (rules 13 and 14).
//!
//! What must never enter: what the objects are, and how the other server is told.

use control::Moment;
use pool::LeaseSettings;
use std::collections::BTreeMap;
use vfs::ObjectId;

/// What goes with an answer that another metadata server wants to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The number of invalidations to the asker when the home answered.
    pub told: u64,
    /// Whether all copies get a lease that starts when the asker asked.
    pub leased: bool,
    /// Whether the asker may keep the answer: it will be told when it changes.
    pub keep: bool,
    /// Objects with the numbers of their invalidations. The asker has to be told of these, too, to make space.
    pub evicted: Vec<(u64, ObjectId)>,
}

/// What a grant depends on besides its holder.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How long copies count.
    pub lease: LeaseSettings,
    /// The maximum number of objects that may have copies.
    pub copies_max: usize,
    /// Whether a server gets a lease only when it has acknowledged all invalidations (rule 13).
    pub told_before_lease: bool,
}

/// Another metadata server, in one run of it and of this home.
#[derive(Clone, Debug, Default)]
pub struct Holder {
    /// The objects that it has copies of, with their places in `order`.
    holds: BTreeMap<ObjectId, u64>,
    /// The same objects in the order in which they were granted.
    order: BTreeMap<u64, ObjectId>,
    granted: u64,
    /// The invalidations that it has not acknowledged, by number.
    telling: BTreeMap<u64, ObjectId>,
    /// The same by object, with the last number of each.
    untaken: BTreeMap<ObjectId, u64>,
    /// The number of invalidations.
    told: u64,
    /// It may rely on its copies until then, by the home's clock.
    leased_until: Moment,
}

impl Holder {
    /// It was restarted, and has no copies. Messages to or from the earlier run are void.
    pub fn restart(&mut self) {
        *self = Holder {
            told: self.told,
            ..Holder::default()
        };
    }

    /// Copies of an object do not count any more. Returns the number of the invalidation; `None` if there are no copies.
    pub fn tell(&mut self, object: ObjectId) -> Option<u64> {
        let place = self.holds.remove(&object)?;
        self.order.remove(&place);
        self.told += 1;
        self.telling.insert(self.told, object);
        self.untaken.insert(object, self.told);
        Some(self.told)
    }

    /// It has acknowledged the invalidation with this number.
    pub fn has_taken(&mut self, number: u64) {
        let Some(object) = self.telling.remove(&number) else {
            return;
        };
        if self.untaken.get(&object) == Some(&number) {
            self.untaken.remove(&object);
        }
    }

    /// Whether it has acknowledged all invalidations.
    #[must_use]
    pub fn has_been_told(&self) -> bool {
        self.telling.is_empty()
    }

    /// The invalidations that it has not acknowledged, in their order.
    pub fn telling(&self) -> impl Iterator<Item = (u64, ObjectId)> {
        self.telling
            .iter()
            .map(|(number, object)| (*number, *object))
    }

    /// Whether it may still answer from a copy of the object although it was told.
    #[must_use]
    pub fn relies_on(&self, now: Moment, object: ObjectId) -> bool {
        self.untaken.contains_key(&object) && now < self.leased_until
    }

    /// The number of invalidations.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Whether it may still answer from copies that it was told of after the first number, up to the last one.
    #[must_use]
    pub fn relies_on_any(&self, now: Moment, (first, last): (u64, u64)) -> bool {
        let is_untaken = first < last && self.telling.range(first + 1..=last).next().is_some();
        is_untaken && now < self.leased_until
    }

    /// From then on it relies on nothing, unless it is granted more.
    #[must_use]
    pub fn leased_until(&self) -> Moment {
        self.leased_until
    }

    /// What goes with an answer about these objects. To be called before they are read. `is_free`: none of them is about to change.
    pub fn grant(
        &mut self,
        now: Moment,
        objects: &[ObjectId],
        is_free: bool,
        terms: Terms,
    ) -> Grant {
        if !self.has_been_told() && terms.told_before_lease {
            return Grant {
                told: self.told,
                ..Grant::default()
            };
        }
        self.leased_until = terms.lease.granted_until(now).max(self.leased_until);
        let keep = is_free && objects.len() <= terms.copies_max;
        let mut evicted = Vec::new();
        if keep {
            objects.iter().for_each(|object| self.hold(*object));
            while self.holds.len() > terms.copies_max {
                let Some(oldest) = self.order.values().next().copied() else {
                    break;
                };
                evicted.extend(self.tell(oldest).map(|number| (number, oldest)));
            }
        }
        Grant {
            told: self.told,
            leased: true,
            keep,
            evicted,
        }
    }

    fn hold(&mut self, object: ObjectId) {
        self.granted += 1;
        if let Some(before) = self.holds.insert(object, self.granted) {
            self.order.remove(&before);
        }
        self.order.insert(self.granted, object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(number: u64) -> ObjectId {
        ObjectId::from_u64(number)
    }

    fn terms(copies_max: usize) -> Terms {
        Terms {
            lease: LeaseSettings::default(),
            copies_max,
            told_before_lease: true,
        }
    }

    #[test]
    fn who_was_told_and_has_not_taken_it_gets_no_lease_and_is_waited_for_until_it_ends() {
        let (mut holder, terms) = (Holder::default(), terms(10));
        assert_eq!(holder.tell(object(1)), None);
        assert!(holder.grant(Moment(0), &[object(1)], true, terms).keep);
        assert_eq!(holder.tell(object(1)), Some(1));
        assert_eq!(holder.tell(object(1)), None, "once");
        let end = holder.leased_until();
        let refused = holder.grant(Moment(1), &[object(2)], true, terms);
        assert_eq!(
            (refused.told, refused.leased, refused.keep),
            (1, false, false)
        );
        assert_eq!(holder.leased_until(), end);
        let last = Moment(end.0 - 1);
        assert!(holder.relies_on(last, object(1)) && !holder.relies_on(last, object(2)));
        assert!(!holder.relies_on(end, object(1)));
        assert!(holder.relies_on_any(last, (0, 1)) && !holder.relies_on_any(last, (1, 1)));
        assert!(!holder.relies_on_any(end, (0, 1)));
        holder.has_taken(1);
        assert!(holder.has_been_told() && !holder.relies_on(last, object(1)));
    }

    #[test]
    fn the_number_of_copies_is_bounded_and_those_go_first_that_were_granted_first() {
        let (mut holder, terms) = (Holder::default(), terms(2));
        let two = [object(1), object(2)];
        assert_eq!(holder.grant(Moment(0), &two, true, terms).evicted, []);
        // After a second grant it is the youngest.
        assert_eq!(holder.grant(Moment(0), &two[..1], true, terms).evicted, []);
        let grant = holder.grant(Moment(0), &[object(3)], true, terms);
        assert_eq!(grant.evicted, [(1, object(2))]);
        assert_eq!((grant.told, grant.keep), (1, true));
        holder.has_taken(1);
        let three = [object(4), object(5), object(6)];
        assert!(
            !holder.grant(Moment(0), &three, true, terms).keep,
            "more than there may be"
        );
        let changing = holder.grant(Moment(0), &[object(4)], false, terms);
        assert_eq!((changing.leased, changing.keep), (true, false));
        assert_eq!(holder.tell(object(4)), None);
        holder.restart();
        assert_eq!(holder.tell(object(1)), None);
        assert_eq!(
            holder.grant(Moment(0), &[], true, terms).told,
            1,
            "numbers go on"
        );
    }
}
