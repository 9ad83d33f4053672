//! How many bytes may still be written to the disks of the other replicas, by their last report.
//!
//! From each report this module subtracts what is on its way to that replica, and a reserve for what other replicas send to it meanwhile. Until the
//! next report it subtracts every admitted change.
//!
//! What must never enter: which changes are refused for lack of space.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use vfs::{ReplicaSlot, Space};

use crate::state::locks::{Table, TableGuard};

/// The largest reserve when none is configured.
const AUTOMATIC_BYTES: u64 = 64 << 20;
/// The reserve is then at most the local file system divided by this.
const AUTOMATIC_PART: u64 = 50;
/// If less than this, or less than the reserve, is left besides the reserve, changes will soon be refused.
const LITTLE_BYTES: u64 = 16 << 20;
/// Contents may rest if this multiple of the reserve is left,
const RESTING_RESERVES: u64 = 16;
/// and also the local file system divided by this,
const RESTING_PART: u64 = 10;
/// or this much, if that is less: a tenth of a large disk is more than what rests.
const RESTING_BYTES: u64 = 4 << 30;
/// How long a refusal counts.
const LATELY: Duration = Duration::from_secs(60);
/// The free space of the local disk is not known yet.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// How much this replica may still write at the others.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    /// Bytes left at each other replica that has reported.
    left: Table<BTreeMap<ReplicaSlot, u64>>,
    /// Subtracted from each report.
    reserve: AtomicU64,
    is_set: bool,
    /// Bytes that users may still write here.
    own: AtomicU64,
    /// With less space left, contents do not rest; derived from the size of the local disk.
    resting: AtomicU64,
    refusals: Table<Refusals>,
}

/// Changes that were refused because another replica's disk has no space.
#[derive(Debug, Default)]
struct Refusals {
    count: u64,
    /// The time of the last refusal, by the replica that caused it.
    last: BTreeMap<ReplicaSlot, Instant>,
}

impl FreeSpace {
    /// With the configured reserve in bytes, or else one that suits the disk.
    pub(crate) fn new(reserve: Option<u64>) -> FreeSpace {
        FreeSpace {
            left: Table::default(),
            reserve: AtomicU64::new(reserve.unwrap_or(AUTOMATIC_BYTES)),
            is_set: reserve.is_some(),
            own: AtomicU64::new(UNKNOWN),
            resting: AtomicU64::new(0),
            refusals: Table::default(),
        }
    }

    /// Notes the space of the local disk.
    pub(crate) fn note_own(&self, space: &Space) {
        self.own.store(space.available_bytes, Ordering::Relaxed);
        let resting = RESTING_BYTES.min(space.total_bytes / RESTING_PART);
        self.resting.store(resting, Ordering::Relaxed);
        if !self.is_set {
            let suiting = AUTOMATIC_BYTES.min(space.total_bytes / AUTOMATIC_PART);
            self.reserve.store(suiting, Ordering::Relaxed);
        }
    }

    /// Bytes reserved at every replica.
    pub(crate) fn reserve(&self) -> u64 {
        self.reserve.load(Ordering::Relaxed)
    }

    /// Bytes that users may still write here, as far as is known.
    pub(crate) fn own(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }

    /// How much space a replica has left, if contents on their way to it may rest. `None` if that is unknown, or if that disk or the local one has
    /// little space. That disk must also hold what other replicas let rest, which is not known here.
    pub(crate) fn left_for_resting(&self, slot: ReplicaSlot) -> Option<u64> {
        let reserves = self.reserve().saturating_mul(RESTING_RESERVES);
        let little = self.resting.load(Ordering::Relaxed).max(reserves);
        let left = self.left().get(&slot).copied()?;
        (left.min(self.own()) >= little).then_some(left)
    }

    /// Takes `wanted` bytes at every replica. If a replica has less, takes nothing and returns the replica with the least space, and that space.
    pub(crate) fn take(&self, wanted: u64) -> std::result::Result<(), (ReplicaSlot, u64)> {
        let mut left = self.left();
        let least = left.iter().min_by_key(|(_, left)| **left);
        if let Some((slot, left)) = least.filter(|(_, left)| **left < wanted) {
            return Err((*slot, *left));
        }
        left.values_mut().for_each(|left| *left -= wanted);
        Ok(())
    }

    pub(crate) fn note_refusal(&self, slot: ReplicaSlot, now: Instant) {
        let mut refusals = self.refusals();
        refusals.count += 1;
        refusals.last.insert(slot, now);
    }

    /// How many changes were refused since the start because other replicas have no space.
    pub(crate) fn refused(&self) -> u64 {
        self.refusals().count
    }

    /// Replicas because of which changes are refused, or soon will be.
    pub(crate) fn short_of(&self, now: Instant) -> BTreeSet<ReplicaSlot> {
        let little = self.reserve().max(LITTLE_BYTES);
        let told = self.left().clone();
        let refusals = self.refusals();
        let lately = |slot: &ReplicaSlot| {
            let last = refusals.last.get(slot);
            last.is_some_and(|last| now.saturating_duration_since(*last) < LATELY)
        };
        let short = told.into_iter();
        let short = short.filter(|(slot, left)| *left < little || lately(slot));
        short.map(|(slot, _)| slot).collect()
    }

    fn refusals(&self) -> TableGuard<'_, Refusals> {
        self.refusals.lock()
    }

    /// Notes that a replica has space for `available` bytes, of which `on_its_way` are taken. `None`: more than can be counted, so the space left
    /// does not grow.
    pub(crate) fn set(&self, slot: ReplicaSlot, available: u64, on_its_way: Option<u64>) {
        let taken = on_its_way.unwrap_or(0).saturating_add(self.reserve());
        let mut now = available.saturating_sub(taken);
        let mut left = self.left();
        if let (None, Some(before)) = (on_its_way, left.get(&slot)) {
            now = now.min(*before);
        }
        left.insert(slot, now);
    }

    pub(crate) fn least(&self) -> Option<u64> {
        self.left().values().min().copied()
    }

    pub(crate) fn left(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, u64>> {
        self.left.lock()
    }
}

/// Whether a replica that lacks this many bytes from one member can store the same amount from every member. Then it can store what all of them let
/// rest, and what they write while that is sent.
pub(crate) fn is_fair_part(lacking: u64, left: u64, members: usize) -> bool {
    let members = u64::try_from(members).unwrap_or(u64::MAX);
    lacking <= left / members.saturating_mul(2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ReplicaSlot = ReplicaSlot(1);
    const OTHER: ReplicaSlot = ReplicaSlot(2);

    #[test]
    fn what_is_taken_is_gone_and_without_others_there_is_no_limit() {
        let space = FreeSpace::new(Some(7));
        assert_eq!([space.take(u64::MAX), space.take(u64::MAX)], [Ok(()); 2]);
        space.set(ONE, 30, Some(13));
        space.set(OTHER, 100, Some(0));
        assert_eq!(space.least(), Some(10));
        assert_eq!(space.take(6), Ok(()));
        assert_eq!(space.take(5), Err((ONE, 4)));
        assert_eq!(space.take(4), Ok(()));
        assert_eq!(space.take(1), Err((ONE, 0)));
        space.set(ONE, 100, Some(0));
        assert_eq!(space.least(), Some(83), "the other one counts, too");
    }

    /// Clients were refused when 64 of 271 MiB were left, and there was no alarm.
    #[test]
    fn who_has_little_left_is_named_before_anything_is_refused() {
        let space = FreeSpace::new(Some(64 << 20));
        let now = Instant::now();
        space.set(ONE, 200 << 20, Some(0));
        space.set(OTHER, 1 << 40, Some(0));
        assert!(space.short_of(now).is_empty());
        space.set(ONE, 100 << 20, Some(0));
        assert_eq!(space.short_of(now), BTreeSet::from([ONE]));
        assert_eq!((space.take(1), space.refused()), (Ok(()), 0));
        space.set(ONE, 64 << 20, Some(0));
        assert_eq!(space.take(1), Err((ONE, 0)));
        // A change that is too large for a disk that is not nearly full is reported for a minute.
        space.set(ONE, 1 << 40, Some(0));
        assert!(space.short_of(now).is_empty());
        space.note_refusal(OTHER, now);
        assert_eq!(
            (space.short_of(now), space.refused()),
            (BTreeSet::from([OTHER]), 1)
        );
        assert!(space.short_of(now + LATELY).is_empty());
    }

    #[test]
    fn what_cannot_be_counted_makes_no_space() {
        let space = FreeSpace::new(Some(0));
        space.set(ONE, 10, Some(0));
        assert_eq!(space.take(6), Ok(()));
        space.set(ONE, 10, None);
        assert_eq!(space.least(), Some(4));
        space.set(ONE, 3, None);
        assert_eq!(space.least(), Some(3));
    }

    /// Three replicas with equal disks fill them, each with files that it controls. Every admitted change is everywhere before the replicas report
    /// their space. Returns how many disks could not store what was answered.
    fn fill_equal_disks(reserve: u64) -> usize {
        const WRITE_BYTES: u64 = 10;
        let slots = [1, 2, 3].map(ReplicaSlot);
        let spaces = slots.map(|_| FreeSpace::new(Some(reserve)));
        let mut free = [105_u64; 3];
        loop {
            for (slot, space) in slots.iter().zip(&spaces) {
                let others = slots.iter().zip(free).filter(|(other, _)| *other != slot);
                others.for_each(|(other, free)| space.set(*other, free, Some(0)));
            }
            // The store also refuses what its own disk cannot hold.
            let places = spaces.iter().zip(free);
            let admitted = places.filter(|(space, free)| {
                *free >= WRITE_BYTES + reserve && space.take(WRITE_BYTES).is_ok()
            });
            let written = admitted.count() as u64 * WRITE_BYTES;
            if written == 0 {
                return 0;
            }
            let overflowing = free.iter().filter(|free| **free < written).count();
            if overflowing > 0 {
                return overflowing;
            }
            free.iter_mut().for_each(|free| *free -= written);
        }
    }

    #[test]
    fn counterexample_28_equal_disks_do_not_fill_together_beyond_the_reserve() {
        assert_eq!(fill_equal_disks(20), 0);
        assert_eq!(fill_equal_disks(0), 3, "every replica leaves the view");
    }

    /// Three replicas write files that only they read, and let them rest on their way to a fourth replica. Returns whether the fourth could store
    /// everything that was answered.
    fn rest_towards_one_disk(free: u64, may_rest: impl Fn(&FreeSpace, u64) -> bool) -> bool {
        const WRITE_BYTES: u64 = 10;
        let mut writers = [1; 3].map(|_| (FreeSpace::new(Some(3 * WRITE_BYTES)), 0));
        let (mut stored, mut answered) = (0, 0);
        loop {
            let before = answered;
            for (space, lacking) in &mut writers {
                space.set(ONE, free.saturating_sub(stored), Some(*lacking));
            }
            for (space, lacking) in &mut writers {
                if space.take(WRITE_BYTES).is_ok() {
                    *lacking += WRITE_BYTES;
                    answered += WRITE_BYTES;
                }
            }
            let is_over = answered == before;
            for (space, lacking) in &mut writers {
                if is_over || !may_rest(space, *lacking) {
                    stored += std::mem::take(lacking);
                }
            }
            if is_over {
                return stored <= free;
            }
        }
    }

    #[test]
    fn what_several_replicas_let_rest_fits_on_a_disk() {
        let bounded = |space: &FreeSpace, lacking| {
            let left = space.left_for_resting(ONE);
            left.is_some_and(|left| is_fair_part(lacking, left, 4))
        };
        assert!(rest_towards_one_disk(100_000, bounded));
        assert!(!rest_towards_one_disk(100_000, |_, _| true));
    }

    #[test]
    fn nothing_rests_towards_a_disk_with_little_space_or_from_one() {
        let space = FreeSpace::new(Some(10));
        let own = |available_bytes| Space {
            total_bytes: 1000,
            free_bytes: 0,
            available_bytes,
            total_objects: 0,
            free_objects: 0,
        };
        assert_eq!(space.left_for_resting(ONE), None, "it has not told");
        space.set(ONE, 170, Some(0));
        assert_eq!(space.left_for_resting(ONE), Some(160));
        space.set(ONE, 170, Some(1));
        assert_eq!(space.left_for_resting(ONE), None);
        space.set(ONE, 1000, Some(0));
        space.note_own(&own(159));
        assert_eq!(space.left_for_resting(ONE), None);
        space.note_own(&own(160));
        assert_eq!(space.left_for_resting(ONE), Some(990));
        let large = FreeSpace::new(Some(0));
        large.note_own(&Space {
            total_bytes: 20 << 30,
            ..own(2 << 30)
        });
        large.set(ONE, (2 << 30) - 1, Some(0));
        assert_eq!(large.left_for_resting(ONE), None);
        large.set(ONE, 2 << 30, Some(0));
        assert_eq!(large.left_for_resting(ONE), Some(2 << 30));
    }

    #[test]
    fn the_reserve_suits_a_small_disk_unless_it_is_set() {
        let space = Space {
            total_bytes: 100 << 20,
            free_bytes: 0,
            available_bytes: 0,
            total_objects: 0,
            free_objects: 0,
        };
        let (set, automatic) = (FreeSpace::new(Some(7)), FreeSpace::new(None));
        set.note_own(&space);
        automatic.note_own(&space);
        assert_eq!((set.reserve(), automatic.reserve()), (7, 2 << 20));
    }
}
