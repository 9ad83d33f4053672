//! Which replicas of the set have what: majorities of the agreed configuration, and all replicas that take part.
//!
//! An account here does not make a replica count: accounts exist for members that are away, for newcomers that do not vote yet, and for a moment for
//! removed replicas.
//!
//! What must never enter: when a majority is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use control::Tree;
use vfs::{ObjectId, ReplicaSlot};

use crate::state::ledger::Ledger;

/// At most this many files are checked in one pass.
const LOOKED_AT_ONCE: usize = 256;

/// A peer and a file.
type Entry = (ReplicaSlot, ObjectId);

impl Ledger {
    /// How far a replica has applied this replica's stream, by its own report.
    pub(crate) fn applied_by(&self, slot: ReplicaSlot) -> u64 {
        self.applied.get(&slot).copied().unwrap_or(0)
    }

    /// The place that a peer which asked for all of a file has applied, if this replica knows of no such place: its copy is that of others, and it has
    /// made nothing since. All of the file includes everything up to there (counterexample 113). Otherwise 0.
    pub(crate) fn forgotten_place(&self, (slot, file): Entry) -> u64 {
        let applied = self.applied_by(slot);
        let is_forgotten = applied > self.last_position && self.asked.contains_key(&(slot, file));
        if is_forgotten { applied } else { 0 }
    }

    fn without_own<'a>(
        &self,
        slots: &'a BTreeSet<ReplicaSlot>,
    ) -> impl Iterator<Item = ReplicaSlot> + use<'a> {
        let own = self.slot;
        slots.iter().copied().filter(move |slot| *slot != own)
    }

    /// Whether a majority has applied this replica's stream up to `position`. A replica outside the view does not count: it may give its copy up.
    pub(crate) fn majority_applied(&self, position: u64) -> bool {
        self.majority_has(|slot| self.active.contains(&slot) && self.applied_by(slot) >= position)
    }

    /// Whether a majority has all of a file, and knows it.
    pub(crate) fn majority_holds(&self, file: ObjectId) -> bool {
        self.majority_has(|slot| self.obstacle(slot, file).is_none())
    }

    /// The other replicas that do not count towards a majority that has all of a file, each with the reason.
    pub(crate) fn obstacles(&self, file: ObjectId) -> Vec<(ReplicaSlot, &'static str)> {
        let others = self.without_own(&self.voters);
        let others = others.filter(|slot| !self.witnesses.contains(slot));
        others
            .filter_map(|slot| Some((slot, self.obstacle(slot, file)?)))
            .collect()
    }

    /// The other replicas that are not known to have applied this replica's stream up to `position`.
    pub(crate) fn behind(&self, position: u64) -> Vec<ReplicaSlot> {
        let others = self.without_own(&self.voters);
        let others = others.filter(|slot| !self.witnesses.contains(slot));
        others
            .filter(|slot| self.applied_by(*slot) < position)
            .collect()
    }

    /// Why a replica does not count towards a majority that has all of a file; `None` if it does.
    fn obstacle(&self, slot: ReplicaSlot, file: ObjectId) -> Option<&'static str> {
        let backlog = self.unshipped.backlog(slot);
        let Some(backlog) = backlog.filter(|backlog| backlog.is_exact()) else {
            return Some("what it lacks is not known");
        };
        if !self.active.contains(&slot) {
            Some("it takes no part")
        } else if backlog.lacks(file) {
            Some("contents of the file are on their way to it")
        } else if self.unconfirmed.contains_key(&(slot, file)) {
            Some("it has not noted that it has all of the file")
        } else if self.apart.contains(&(slot, file)) {
            Some("it lacks data of the file that others wrote")
        } else {
            None
        }
    }

    /// Whether all replicas that take part have what was answered in earlier configurations of the set: then the configuration may change again. A
    /// majority of one configuration need not overlap a majority of the configuration two steps later.
    pub(crate) fn is_settled_in_configuration(&self, contents: bool) -> bool {
        let Some((since, position)) = self.configured_at else {
            return false;
        };
        self.without_own(&self.active).all(|slot| {
            let shipped = self.unshipped.backlog(slot).is_some_and(|backlog| {
                let earlier = backlog.oldest().is_some_and(|oldest| oldest < since);
                !backlog.keeps_contents() || !earlier
            });
            self.applied_by(slot) >= position && (shipped || !contents)
        })
    }

    /// Whether this replica and the others for which `has` holds make a majority of the agreed configuration. If the set has a witness, which holds
    /// nothing, all other replicas that take part are needed (rule 36).
    pub(crate) fn majority_has(&self, has: impl Fn(ReplicaSlot) -> bool) -> bool {
        if self.voters.is_disjoint(&self.witnesses) {
            let having = self.without_own(&self.voters).filter(|slot| has(*slot));
            return having.count() >= self.voters.len() / 2;
        }
        let mut active = self.without_own(&self.active);
        active.all(|slot| self.witnesses.contains(&slot) || has(slot))
    }

    /// The position up to which all other replicas that take part have applied this replica's stream.
    pub(crate) fn known_to_active(&self) -> u64 {
        let applied = self.without_own(&self.active);
        let applied = applied.map(|slot| self.applied_by(slot));
        applied.min().unwrap_or(self.last_position)
    }

    /// The position up to which updates need not be kept: all replicas have them, or a replica outside the view lacks them and they are not among the
    /// last `kept(slot)`.
    pub(crate) fn needed_by_nobody(&self, kept: impl Fn(ReplicaSlot) -> u64) -> u64 {
        let needed = self.unshipped.peers().map(|(slot, _)| {
            let applied = self.applied_by(slot);
            match self.active.contains(&slot) {
                true => applied,
                false => applied.max(self.last_position.saturating_sub(kept(slot))),
            }
        });
        needed.min().unwrap_or(self.last_position)
    }

    /// How many entries are kept of what others lack, or may not know.
    pub(crate) fn entries_kept(&self) -> usize {
        let backlogs = self.unshipped.peers().map(|(_, backlog)| backlog.files());
        let previous = self
            .previous
            .as_ref()
            .map_or(0, |previous| previous.files.len());
        let told = self.unconfirmed.len() + self.complete.len();
        let told = told + self.apart.len() + self.asked.len();
        backlogs.sum::<usize>() + self.births.len() + told + self.shipped.len() + previous
    }

    /// How many files a peer has not noted that it has; 0 if it cannot be more than `most`.
    pub(crate) fn untold(&self, slot: ReplicaSlot, most: usize) -> usize {
        if self.unconfirmed.len() <= most {
            return 0;
        }
        let of_peer = self.unconfirmed.range((slot, ObjectId::from_u64(0))..);
        of_peer.take_while(|((of, _), _)| *of == slot).count()
    }

    /// A file is gone: no peer needs to know that it has all of it.
    pub(crate) fn confirmed_by_all(&mut self, file: ObjectId) {
        for slot in self.unshipped.peers().map(|(slot, _)| slot) {
            self.unconfirmed.remove(&(slot, file));
            self.apart.remove(&(slot, file));
            self.asked.remove(&(slot, file));
        }
    }

    /// A peer does not know that it has all of a file as of now, or has not noted it yet.
    pub(crate) fn note_unconfirmed(&mut self, slot: ReplicaSlot, file: ObjectId) {
        if self.has_account(slot) {
            self.unconfirmed.insert((slot, file), self.last_position);
        }
    }

    /// Notes whether a peer that has a file, as far as this replica sends it, lacks data of the file that others made.
    pub(crate) fn note_apart(&mut self, slot: ReplicaSlot, file: ObjectId, apart: bool) {
        if apart && self.has_account(slot) {
            self.apart.insert((slot, file));
        } else {
            self.apart.remove(&(slot, file));
        }
    }

    /// Whether what a peer lacks is noted. One whose account was given up learns with its copy what it has; what was read for it before may end only
    /// now.
    fn has_account(&self, slot: ReplicaSlot) -> bool {
        let backlog = self.unshipped.backlog(slot);
        backlog.is_some_and(|backlog| !backlog.is_given_up())
    }

    /// A peer has noted durably that it has all of a file up to a place of this replica's stream, and which of its requests that answers.
    pub(crate) fn noted_complete(
        &mut self,
        by: ReplicaSlot,
        (file, position): (ObjectId, u64),
        answers: &BTreeSet<(ObjectId, u64)>,
    ) {
        let entry = (by, file);
        let backlog = self.unshipped.backlog(by);
        if backlog.is_none_or(|backlog| backlog.lacks(file)) {
            return;
        }
        self.apart.remove(&entry);
        let asked = self.asked.get(&entry);
        if asked.is_some_and(|turn| !answers.contains(&(file, *turn))) {
            return self.note_unconfirmed(by, file);
        }
        self.asked.remove(&entry);
        // It may have noted an earlier change (counterexample 83).
        let awaited = self.unconfirmed.get(&entry);
        if awaited.is_some_and(|awaited| position >= *awaited) {
            self.unconfirmed.remove(&entry);
        }
    }

    /// What a peer has said of files that it has in part no longer counts.
    pub(crate) fn forget_answers_of(&mut self, slot: ReplicaSlot) {
        self.apart.retain(|(of, _)| *of != slot);
        self.asked.retain(|(of, _), _| *of != slot);
    }

    /// Checks the next few files of which a peer may not know that it has everything, and starts again after the last one. Removed files are
    /// forgotten: their piece was read during the removal. The peers are told again of the other files.
    pub(crate) fn look_at_untold(&mut self, tree: &impl Tree) {
        let (untold, apart) = self.looked_at;
        let untold = behind(untold);
        let untold = next_few(self.unconfirmed.range(untold).map(|(entry, _)| *entry));
        let apart = next_few(self.apart.range(behind(apart)).copied());
        self.looked_at = (untold.last().copied(), apart.last().copied());
        let gone = |(_, file): &(ReplicaSlot, ObjectId)| tree.parents(*file).is_empty();
        let next = untold.into_iter().chain(apart);
        let (gone, there): (Vec<_>, Vec<_>) = next.partition(gone);
        for entry in gone {
            self.unconfirmed.remove(&entry);
            self.apart.remove(&entry);
            self.asked.remove(&entry);
        }
        self.tell_again(there);
    }

    /// Peers are told soon that these files are complete there, if they are.
    pub(crate) fn tell_again(&mut self, files: Vec<(ReplicaSlot, ObjectId)>) {
        for (slot, file) in files {
            let backlog = self.unshipped.backlog(slot);
            let is_there =
                backlog.is_some_and(|backlog| backlog.keeps_contents() && !backlog.lacks(file));
            if is_there {
                self.tell_soon(slot, file);
            }
        }
    }

    /// A peer has all of a file, and is told soon.
    pub(crate) fn tell_soon(&mut self, slot: ReplicaSlot, file: ObjectId) {
        // The data being written now may be in place here before it is noted.
        if self.pins.contains_key(&file) || !self.has_account(slot) {
            return;
        }
        let entry = (slot, file);
        let forgotten = self.forgotten_place(entry);
        match self.unconfirmed.get(&entry) {
            // A later change takes the place of an earlier one that was not told yet (counterexample 83).
            Some(awaited) => {
                let told = self.complete.entry(entry).or_default();
                *told = (*awaited).max(*told).max(forgotten);
            }
            // The first place stays: the peer is to reach it although more is changed all the time.
            None => {
                let place = self.last_position.max(forgotten);
                self.complete.entry(entry).or_insert(place);
            }
        }
    }

    /// Takes the files that are complete at peers that have applied the updates which made them so. A peer that is told before has nothing to mark as
    /// complete, and marks the file as incomplete when it applies them.
    pub(crate) fn take_complete(&mut self) -> BTreeMap<(ReplicaSlot, ObjectId), u64> {
        let applied = &self.applied;
        let has_applied = |slot, position| applied.get(&slot).is_some_and(|at| *at >= position);
        self.complete
            .extract_if(.., |(slot, _), position| has_applied(*slot, *position))
            .collect()
    }

    /// The same for one file, for all peers that have not confirmed it.
    pub(crate) fn tell_of(&mut self, file: ObjectId) {
        let all = self.active.iter().map(|slot| (*slot, file));
        let untold = all.filter(|entry| {
            let awaited = self.unconfirmed.contains_key(entry);
            awaited || self.apart.contains(entry)
        });
        self.tell_again(untold.collect());
    }

    /// Whether every other replica that takes part has this file's content.
    pub(crate) fn complete_at_active(&self, file: ObjectId) -> bool {
        let mut lacking = self.unshipped.lacking(file);
        !lacking.any(|slot| self.active.contains(&slot))
    }

    /// Whether every other replica that takes part has applied this replica's stream up to `position`.
    pub(crate) fn applied_by_active(&self, position: u64) -> bool {
        let mut active = self.without_own(&self.active);
        active.all(|slot| self.applied_by(slot) >= position)
    }
}

/// The entries behind one; all of them behind none.
fn behind(last: Option<Entry>) -> (Bound<Entry>, Bound<Entry>) {
    let first = last.map_or(Bound::Unbounded, Bound::Excluded);
    (first, Bound::Unbounded)
}

fn next_few(entries: impl Iterator<Item = Entry>) -> Vec<Entry> {
    entries.take(LOOKED_AT_ONCE).collect()
}

#[cfg(test)]
mod tests {
    use control::{Moment, Position};

    use super::*;
    use crate::state::shipping::{Settings, Unshipped};

    const OWN: ReplicaSlot = ReplicaSlot(1);
    const FILE: ObjectId = ObjectId::from_u64(7);
    const NEAR: ReplicaSlot = ReplicaSlot(2);
    const FAR: ReplicaSlot = ReplicaSlot(3);

    /// The ledger of replica 1, which has made one update with content; `witness`: the far replica is a witness.
    fn ledger(witness: bool) -> Ledger {
        let mut unshipped = Unshipped::new(Settings::default());
        unshipped.add_peer(NEAR);
        match witness {
            true => unshipped.add_witness(FAR),
            false => drop(unshipped.add_peer(FAR)),
        }
        unshipped.changed(Moment(0), FILE, 0..10, Position(1));
        let mut ledger = Ledger::new(OWN, unshipped);
        ledger.active = [OWN, NEAR, FAR].into();
        ledger.voters = ledger.active.clone();
        if witness {
            ledger.witnesses.insert(FAR);
        }
        ledger
    }

    fn deliver(ledger: &mut Ledger, to: ReplicaSlot) {
        let backlog = ledger.unshipped.peer(to).unwrap();
        let piece = backlog.next(Moment(u64::MAX)).unwrap();
        assert_eq!(backlog.acknowledged(piece.id), Some(FILE));
    }

    #[test]
    fn a_majority_of_three_is_any_other_one() {
        let mut ledger = ledger(false);
        assert!(!ledger.majority_applied(1) && !ledger.majority_holds(FILE));
        ledger.applied.insert(FAR, 1);
        deliver(&mut ledger, FAR);
        assert!(ledger.majority_applied(1) && ledger.majority_holds(FILE));
    }

    /// What had been read for a peer was noted as unconfirmed after its account had been given up, and stayed until it was back.
    #[test]
    fn nothing_is_noted_for_a_peer_whose_account_was_given_up() {
        let mut ledger = ledger(false);
        ledger.note_unconfirmed(FAR, FILE);
        assert!(ledger.unconfirmed.remove(&(FAR, FILE)).is_some());
        ledger.unshipped.give_up(FAR);
        ledger.note_unconfirmed(FAR, FILE);
        ledger.note_apart(FAR, FILE, true);
        ledger.tell_again(vec![(FAR, FILE)]);
        assert_eq!(ledger.unconfirmed.len() + ledger.complete.len(), 0);
        assert!(ledger.apart.is_empty());
    }

    /// A peer's note that it has an earlier change of a file arrives after its request for all of the file.
    #[test]
    fn counterexample_81_what_a_peer_noted_before_it_asked_does_not_take_its_request_off() {
        let mut ledger = ledger(false);
        let entry = (NEAR, FILE);
        deliver(&mut ledger, NEAR);
        ledger.asked.insert(entry, 3);
        ledger.noted_complete(NEAR, (FILE, 1), &BTreeSet::new());
        assert_eq!(ledger.asked.get(&entry), Some(&3));
        assert!(
            ledger.unconfirmed.contains_key(&entry),
            "the peer is told again"
        );
        ledger.noted_complete(NEAR, (FILE, 1), &[(FILE, 2)].into());
        assert!(ledger.asked.contains_key(&entry), "an earlier request");
        ledger.noted_complete(NEAR, (FILE, 1), &[(FILE, 3)].into());
        assert!(!ledger.asked.contains_key(&entry) && !ledger.unconfirmed.contains_key(&entry));
    }

    /// A peer was told that it has all of a file before it had applied the truncation. It marked the file as incomplete when it did, for ever.
    #[test]
    fn counterexample_82_a_peer_hears_that_a_file_is_complete_when_it_has_applied_why() {
        let mut ledger = ledger(false);
        let entry = (NEAR, FILE);
        ledger.complete.insert(entry, 5);
        ledger.applied.insert(NEAR, 4);
        ledger.applied.insert(FAR, 5);
        assert!(ledger.take_complete().is_empty());
        ledger.applied.insert(NEAR, 5);
        assert_eq!(ledger.take_complete(), [(entry, 5)].into());
        assert!(ledger.complete.is_empty());
    }

    /// A file is truncated and written again, in several pieces, before the peer is told that it has all of the truncated file; and what it notes of
    /// that arrives after the last piece.
    #[test]
    fn counterexample_83_what_a_peer_is_told_of_an_earlier_change_does_not_stand_for_a_later_one() {
        let mut ledger = ledger(false);
        let entry = (NEAR, FILE);
        deliver(&mut ledger, NEAR);
        ledger.applied.insert(NEAR, 7);
        ledger.last_position = 5;
        ledger.note_unconfirmed(NEAR, FILE);
        ledger.tell_soon(NEAR, FILE);
        ledger.last_position = 7;
        ledger.note_unconfirmed(NEAR, FILE);
        ledger.tell_soon(NEAR, FILE);
        assert_eq!(ledger.take_complete(), [(entry, 7)].into());
        ledger.noted_complete(NEAR, (FILE, 5), &BTreeSet::new());
        assert!(!ledger.majority_holds(FILE), "only the earlier change");
        ledger.noted_complete(NEAR, (FILE, 7), &BTreeSet::new());
        assert!(ledger.majority_holds(FILE));
    }

    /// A file is truncated while the last piece of it is on its way, and names an earlier place.
    #[test]
    fn counterexample_84_a_truncation_is_confirmed_although_a_piece_was_on_its_way() {
        let mut ledger = ledger(false);
        let entry = (NEAR, FILE);
        ledger.applied.insert(NEAR, 5);
        ledger.last_position = 6;
        ledger.note_unconfirmed(NEAR, FILE);
        ledger.last_position = 9;
        deliver(&mut ledger, NEAR);
        ledger.tell_soon(NEAR, FILE);
        assert!(!ledger.majority_holds(FILE) && ledger.take_complete().is_empty());
        ledger.applied.insert(NEAR, 6);
        assert_eq!(ledger.take_complete(), [(entry, 6)].into());
        // That was lost with the session.
        ledger.tell_of(FILE);
        assert_eq!(ledger.take_complete(), [(entry, 6)].into());
    }

    /// The update was answered because a replica outside the view had it, which then gave its copy up for another one.
    #[test]
    fn counterexample_58_one_outside_the_view_is_no_part_of_a_majority() {
        let mut ledger = ledger(false);
        ledger.active.remove(&FAR);
        ledger.applied.insert(FAR, 1);
        assert!(!ledger.majority_applied(1));
        ledger.applied.insert(NEAR, 1);
        assert!(ledger.majority_applied(1));
    }

    #[test]
    fn with_a_witness_everybody_else_in_the_view_is_needed() {
        let mut ledger = ledger(true);
        ledger.applied.insert(FAR, 1);
        assert!(!ledger.majority_applied(1) && !ledger.majority_holds(FILE));
        ledger.applied.insert(NEAR, 1);
        assert!(ledger.majority_applied(1) && !ledger.majority_holds(FILE));
        deliver(&mut ledger, NEAR);
        assert!(ledger.majority_holds(FILE));
        ledger.note_unconfirmed(NEAR, FILE);
        assert!(!ledger.majority_holds(FILE), "the other does not know it");
        ledger.active.remove(&NEAR);
        assert!(ledger.majority_applied(9) && ledger.majority_holds(FILE));
    }

    /// The far replica is removed, and a fourth replaces it and is lost in turn: two of three are left.
    #[test]
    fn counterexample_42_a_majority_is_one_of_the_agreed_configuration() {
        let mut ledger = ledger(false);
        let fourth = ReplicaSlot(4);
        ledger.unshipped.add_peer(fourth);
        ledger.voters = [OWN, NEAR, fourth].into();
        ledger.active = [OWN, NEAR].into();
        ledger.applied.insert(FAR, 1);
        deliver(&mut ledger, FAR);
        assert!(!ledger.majority_applied(1) && !ledger.majority_holds(FILE));
        ledger.applied.insert(NEAR, 1);
        deliver(&mut ledger, NEAR);
        assert!(ledger.majority_applied(1) && ledger.majority_holds(FILE));
    }

    #[test]
    fn a_newcomer_is_not_counted_before_it_votes() {
        let mut ledger = ledger(false);
        let newcomer = ReplicaSlot(4);
        ledger.unshipped.add_peer(newcomer);
        ledger.active.insert(newcomer);
        ledger.applied.insert(newcomer, 1);
        assert!(!ledger.majority_applied(1), "it has no vote yet");
        ledger.applied.insert(NEAR, 1);
        assert!(ledger.majority_applied(1), "it is not waited for either");
        ledger.voters.insert(newcomer);
        assert!(ledger.majority_applied(1), "three of four");
        ledger.applied.remove(&NEAR);
        assert!(!ledger.majority_applied(1), "two of four");
    }

    #[test]
    fn a_member_of_which_there_is_no_account_here_holds_nothing() {
        let mut ledger = ledger(false);
        ledger.unshipped.remove_peer(FAR);
        ledger.active = [OWN, FAR].into();
        assert!(!ledger.majority_holds(FILE));
        ledger.configured_at = Some((Moment(0), 1));
        assert!(!ledger.is_settled_in_configuration(false) && !ledger.applied_by_active(1));
    }
}
