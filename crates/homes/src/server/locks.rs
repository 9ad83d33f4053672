//! The locks that operations hold on objects until they are over.

use crate::message::OperationName;
use crate::part::Claim;
use crate::rules::Rules;
use std::collections::BTreeMap;
use vfs::{Name, ObjectId};

#[derive(Clone, Debug)]
struct Lock {
    owner: OperationName,
    claim: Claim,
    /// Whether another home decides the outcome, and may have done so.
    is_prepared: bool,
}

/// All locks of a home.
#[derive(Clone, Debug)]
pub(super) struct Locks {
    rules: Rules,
    by_object: BTreeMap<ObjectId, Vec<Lock>>,
}

impl Locks {
    pub(super) fn new(rules: Rules) -> Locks {
        Locks {
            rules,
            by_object: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_object.is_empty()
    }

    fn of(&self, object: ObjectId) -> &[Lock] {
        self.by_object.get(&object).map_or(&[], Vec::as_slice)
    }

    fn excludes(&self, one: &Claim, other: &Claim) -> bool {
        match (one, other) {
            (Claim::Moves, Claim::Moves) => self.rules.moves_locked(),
            (Claim::Name(one), Claim::Name(other)) => one == other,
            (Claim::Row | Claim::Place, Claim::Row | Claim::Place) => self.rules.rows_locked(),
            (Claim::Seal, Claim::Name(_)) | (Claim::Name(_), Claim::Seal) => {
                self.rules.directories_sealed()
            }
            (Claim::Seal, Claim::Row | Claim::Place | Claim::Seal)
            | (Claim::Row | Claim::Place, Claim::Seal) => true,
            _ => false,
        }
    }

    /// Whether another operation has a conflicting lock.
    pub(super) fn conflicts(&self, owner: OperationName, object: ObjectId, claim: &Claim) -> bool {
        let others = self.of(object).iter().filter(|lock| lock.owner != owner);
        let mut claims = others.map(|lock| &lock.claim);
        claims.any(|other| self.excludes(claim, other))
    }

    pub(super) fn holds(&self, owner: OperationName, object: ObjectId, claim: &Claim) -> bool {
        let mut locks = self.of(object).iter();
        locks.any(|lock| lock.owner == owner && lock.claim == *claim)
    }

    pub(super) fn take(&mut self, owner: OperationName, object: ObjectId, claim: Claim) {
        if !self.holds(owner, object, &claim) {
            self.by_object.entry(object).or_default().push(Lock {
                owner,
                claim,
                is_prepared: false,
            });
        }
    }

    /// From now on only the outcome ends the lock.
    pub(super) fn prepared(&mut self, owner: OperationName, object: ObjectId, claim: &Claim) {
        let locks = self.by_object.entry(object).or_default();
        let own = |lock: &&mut Lock| lock.owner == owner && lock.claim == *claim;
        locks
            .iter_mut()
            .filter(own)
            .for_each(|lock| lock.is_prepared = true);
    }

    /// Releases the locks of an operation. Returns their objects.
    pub(super) fn release(&mut self, owner: OperationName) -> Vec<ObjectId> {
        let mut released = Vec::new();
        self.by_object.retain(|object, locks| {
            let before = locks.len();
            locks.retain(|lock| lock.owner != owner);
            if locks.len() < before {
                released.push(*object);
            }
            !locks.is_empty()
        });
        released
    }

    /// Whether an outcome has to be known before any server learns the object or the name in it.
    pub(super) fn hides(&self, object: ObjectId, name: Option<&Name>) -> bool {
        let hides = |claim: &Claim| match (claim, name) {
            (Claim::Moves, _) => false,
            (Claim::Name(locked), Some(name)) => locked == name,
            _ => true,
        };
        let mut locks = self.of(object).iter();
        locks.any(|lock| lock.is_prepared && hides(&lock.claim))
    }

    /// Whether the outcome of a move has to be known before any server learns the parent of the directory. The operation that asks for it
    /// holds the right to move directories, so it must not wait for an operation that may wait for it.
    pub(super) fn hides_place(&self, object: ObjectId) -> bool {
        let mut locks = self.of(object).iter();
        locks.any(|lock| lock.is_prepared && lock.claim == Claim::Place)
    }

    /// Whether no operation holds a lock on the object.
    pub(super) fn is_free(&self, object: ObjectId) -> bool {
        self.of(object)
            .iter()
            .all(|lock| lock.claim == Claim::Moves)
    }
}
