//! The site lease: a replica's time-bounded right to answer clients.
//!
//! A replica may answer while a majority has granted it a lease: they will not join a view without it. For the holder,
//! a grant counts from the moment at which the holder asked, on its own clock. For the granter, it counts from the
//! moment of the grant, on the granter's clock. So a replica that is cut off stops by itself before any other replica
//! acts without it. What must never enter: when to ask which replica, and what a lease is needed for.
//!
//! A grant is accepted only if it answers a recent question of this incarnation. An answer to an earlier incarnation,
//! which may have had another clock, or to no question at all, gives no lease.
//!
//! The clock of leases may not detect that the whole machine was paused (`clocks`). When the time of day shows a pause,
//! all grants, in both directions, count as forgotten.

use crate::clocks::{ClockReading, ClockSight, judge};
use crate::moment::Moment;
use crate::name::{Epoch, Incarnation};
use crate::rules::Rules;
use crate::view::View;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vfs::ReplicaSlot;

/// How much faster or slower than true time a clock may run, in millionths. This is more than any program that sets
/// clocks does to the clocks of Linux (decision 0012).
pub const DRIFT_PPM: u32 = 110_000;

/// How far a clock may deviate from true time after `length`, in either direction, if its rate is wrong by this number of millionths.
#[must_use]
pub fn drift(length: Duration, ppm: u32) -> Duration {
    let micros = length.as_micros() * u128::from(ppm);
    Duration::from_micros(u64::try_from(micros.div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// How long grants last, and how much the rates of clocks may differ.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSettings {
    /// How long a grant lasts. It must be the same at all replicas.
    pub length: Duration,
    /// How much faster or slower than true time a clock may run, in millionths.
    pub drift_ppm: u32,
    /// For tests: the rules in force.
    pub rules: Rules,
}

impl Default for LeaseSettings {
    fn default() -> LeaseSettings {
        LeaseSettings {
            length: Duration::from_secs(5),
            drift_ppm: DRIFT_PPM,
            rules: Rules::ALL,
        }
    }
}

impl LeaseSettings {
    /// How far the time of day may jump relative to the clock of leases without effect. A lease ends earlier by twice this time: undetected, the clock may be
    /// behind by this much when the grant is requested, and ahead by this much while the grant is valid.
    #[must_use]
    pub fn jump_allowed(&self) -> Duration {
        self.length / 50
    }

    /// How long a grant binds the granter, however fast this clock runs.
    fn as_granted(&self) -> Duration {
        self.length + self.drift()
    }

    /// How long the holder may rely on a grant, however slowly this clock runs, and even if it missed a small jump twice.
    fn as_relied_upon(&self) -> Duration {
        self.length
            .saturating_sub(self.drift())
            .saturating_sub(self.jump_allowed() * 2)
    }

    fn drift(&self) -> Duration {
        drift(self.length, self.drift_ppm)
    }
}

/// The request for a grant. It comes back with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The incarnation of the requester.
    pub incarnation: Incarnation,
    /// When it asked, on its own clock of leases.
    pub asked: Moment,
}

/// One replica's lease, and the grants it gave others for theirs.
#[derive(Clone, Debug)]
pub struct SiteLease {
    slot: ReplicaSlot,
    incarnation: Incarnation,
    settings: LeaseSettings,
    /// When this incarnation asked, for questions whose answers are still useful.
    questions: BTreeSet<Moment>,
    /// When this replica asked for each grant that it has.
    grants: BTreeMap<ReplicaSlot, Moment>,
    /// Until when each other replica may rely on a grant of this one.
    granted: BTreeMap<ReplicaSlot, Moment>,
    /// All forgotten grants have expired by then.
    forgotten: Moment,
    /// How far the time of day was ahead of the clock of leases, in microseconds, since the last jump.
    ahead_us: Option<i64>,
    /// Grants that answered no question of this incarnation.
    unbelieved: u64,
}

impl SiteLease {
    /// A replica that starts has no grants, and does not remember those that it gave.
    #[must_use]
    pub fn new(
        slot: ReplicaSlot,
        incarnation: Incarnation,
        settings: LeaseSettings,
        started: Moment,
    ) -> SiteLease {
        SiteLease {
            slot,
            incarnation,
            settings,
            questions: BTreeSet::new(),
            grants: BTreeMap::new(),
            granted: BTreeMap::new(),
            forgotten: started.after(settings.as_granted()),
            ahead_us: None,
            unbelieved: 0,
        }
    }

    /// This replica asks all others for a grant.
    pub fn request(&mut self, now: Moment) -> Question {
        self.questions.insert(now);
        let useful = now.before(self.settings.length);
        self.questions = self.questions.split_off(&useful);
        Question {
            incarnation: self.incarnation,
            asked: now,
        }
    }

    /// Another replica asks for a grant. `false`: it is not active in the view in force here, or in a view that is
    /// agreed and not in force here yet.
    pub fn handle_request(&mut self, now: Moment, views: &[&View], from: ReplicaSlot) -> bool {
        let takes_part = views.iter().all(|view| !view.has_lost(from));
        if takes_part {
            let until = now.after(self.settings.as_granted());
            let granted = self.granted.entry(from).or_default();
            *granted = until.max(*granted);
        }
        takes_part
    }

    /// Another replica has granted a lease, and returns the question. `false`: this incarnation did not ask that, or
    /// asked too long ago; the grant is dropped.
    pub fn handle_grant(&mut self, now: Moment, from: ReplicaSlot, question: Question) -> bool {
        let asked_here = question.incarnation == self.incarnation
            && question.asked <= now
            && self.questions.contains(&question.asked);
        if !asked_here && self.settings.rules.grants_answer_requests() {
            self.unbelieved += 1;
            return false;
        }
        let latest = self.grants.entry(from).or_default();
        *latest = question.asked.max(*latest);
        true
    }

    /// The number of grants that were dropped since the start.
    #[must_use]
    pub fn unbelieved(&self) -> u64 {
        self.unbelieved
    }

    /// The clocks were read. If one has jumped relative to the other, all earlier grants and questions become invalid.
    /// Grants that this replica may have given and forgotten bind it for a whole lease.
    pub fn handle_clocks(&mut self, reading: ClockReading) -> ClockSight {
        let Some(ahead_us) = self.ahead_us else {
            // It is unknown what happened before.
            self.questions.clear();
            self.grants.clear();
            self.ahead_us = reading.ahead_us(self.settings.jump_allowed());
            return match self.ahead_us {
                Some(_) => ClockSight::Steady,
                None => ClockSight::Unclear,
            };
        };
        let sight = judge(ahead_us, self.settings.jump_allowed(), reading);
        if sight == ClockSight::Jumped && self.settings.rules.jumps_end_leases() {
            self.questions.clear();
            self.grants.clear();
            let forgotten = reading.after.after(self.settings.as_granted());
            self.forgotten = forgotten.max(self.forgotten);
            self.ahead_us = reading.ahead_us(self.settings.jump_allowed());
        }
        sight
    }

    /// Whether the clocks show that all grants are invalid. Then [`Self::handle_clocks`] must be called.
    #[must_use]
    pub fn has_missed_time(&self, reading: ClockReading) -> bool {
        let jumped =
            |ahead| judge(ahead, self.settings.jump_allowed(), reading) == ClockSight::Jumped;
        self.settings.rules.jumps_end_leases() && self.ahead_us.is_some_and(jumped)
    }

    /// How far the time of day has been ahead of the clock of leases since the last jump, in microseconds. `None`: it
    /// was not read yet.
    #[must_use]
    pub fn ahead_us(&self) -> Option<i64> {
        self.ahead_us
    }

    /// Until when this replica may answer clients in this view; `None` when grants are missing.
    #[must_use]
    pub fn valid_until(&self, view: &View) -> Option<Moment> {
        if view.has_lost(self.slot) {
            return None;
        }
        if !self.settings.rules.lease_needed() {
            return Some(Moment(u64::MAX));
        }
        let needed = view.majority() - 1;
        if needed == 0 {
            return Some(Moment(u64::MAX));
        }
        let grants = self.grants.iter();
        let counted =
            grants.filter(|(slot, _)| view.configured.contains(slot) && **slot != self.slot);
        let mut asked: Vec<Moment> = counted.map(|(_, asked)| *asked).collect();
        asked.sort_unstable();
        let asked = asked.iter().rev().nth(needed - 1)?;
        Some(asked.after(self.settings.as_relied_upon()))
    }

    /// Whether this replica may answer clients now.
    #[must_use]
    pub fn is_valid(&self, now: Moment, view: &View) -> bool {
        self.valid_until(view).is_some_and(|until| now < until)
    }

    /// When this replica may act in `next`: when the leases that it has granted to all replicas outside it have expired. A restarted replica has no previous
    /// view except the one before the first: any member may rely on a grant that this replica has forgotten.
    #[must_use]
    pub fn may_enter(&self, previous: &View, next: &View) -> Moment {
        if !self.settings.rules.grants_bind() {
            return Moment(0);
        }
        let granted = match previous.epoch {
            Epoch(0) => &next.configured,
            _ => &previous.active,
        };
        let gone = granted.iter().filter(|slot| next.has_lost(**slot));
        let others = gone.filter(|slot| **slot != self.slot);
        let until = others.map(|slot| {
            let granted = self.granted.get(slot).copied().unwrap_or_default();
            granted.max(self.forgotten)
        });
        until.max().unwrap_or_default()
    }

    /// When this replica asked for each peer's latest grant, to detect silent peers.
    #[must_use]
    pub fn last_grant(&self, from: ReplicaSlot) -> Option<Moment> {
        self.grants.get(&from).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const FIRST: Incarnation = Incarnation(1);

    fn view(epoch: u64, active: &[u16]) -> View {
        View {
            active: active.iter().copied().map(ReplicaSlot).collect(),
            ..View::whole(Epoch(epoch), (1..=3).map(ReplicaSlot).collect())
        }
    }

    fn lease(slot: u16) -> SiteLease {
        let settings = LeaseSettings::default();
        SiteLease::new(ReplicaSlot(slot), FIRST, settings, Moment(0))
    }

    /// Asks all replicas, and gets one grant.
    fn ask(lease: &mut SiteLease, at: Moment, granter: u16) {
        let question = lease.request(at);
        assert!(lease.handle_grant(at, ReplicaSlot(granter), question));
    }

    /// A reading with the time of day this far ahead, and both clocks read at the same moment.
    fn reading(at: Moment, ahead_us: u64) -> ClockReading {
        ClockReading {
            before: at,
            time_of_day_us: at.0 + ahead_us,
            after: at,
        }
    }

    #[test]
    fn a_lease_rests_on_a_majority_and_counts_from_the_question() {
        let (mut lease, all) = (lease(1), view(1, &[1, 2, 3]));
        assert!(!lease.is_valid(Moment(1), &all), "nobody has granted");
        ask(&mut lease, Moment(SECOND), 2);
        assert!(lease.is_valid(Moment(5 * SECOND), &all));
        assert!(
            !lease.is_valid(Moment(6 * SECOND), &all),
            "5 s after it asked"
        );
        assert!(
            !lease.is_valid(Moment(SECOND), &view(2, &[2, 3])),
            "it has left"
        );
    }

    #[test]
    fn no_view_is_entered_without_somebody_who_may_still_answer() {
        let mut lease = lease(2);
        let (all, without) = (view(1, &[1, 2, 3]), view(2, &[2, 3]));
        assert!(lease.handle_request(Moment(20 * SECOND), &[&all], ReplicaSlot(1)));
        assert!(lease.may_enter(&all, &without) > Moment(25 * SECOND));
        assert!(!lease.handle_request(Moment(21 * SECOND), &[&all, &without], ReplicaSlot(1)));
        assert_eq!(lease.may_enter(&all, &all), Moment(0));
    }

    #[test]
    fn a_restarted_replica_waits_for_grants_it_does_not_remember() {
        let lease = lease(2);
        let (all, without) = (view(1, &[1, 2, 3]), view(2, &[2, 3]));
        assert!(lease.may_enter(&all, &without) > Moment(5 * SECOND));
    }

    /// A member restarts while the others exclude a third one, which still runs. It finds that the view without the
    /// third one is agreed, and knows no earlier view.
    #[test]
    fn a_replica_that_knows_no_previous_view_waits_for_all_who_are_not_in_the_next() {
        let (lease, without) = (lease(2), view(2, &[2, 3]));
        let nobody = View {
            active: BTreeSet::new(),
            ..View::whole(Epoch(0), [ReplicaSlot(2)].into())
        };
        assert!(lease.may_enter(&nobody, &without) > Moment(5 * SECOND));
        assert_eq!(lease.may_enter(&nobody, &view(1, &[1, 2, 3])), Moment(0));
    }

    /// The clock of leases misses a little time before a grant is requested, and a little while it is valid; neither is detected.
    #[test]
    fn two_little_jumps_may_add_up() {
        let settings = LeaseSettings::default();
        let (little, true_time) = (settings.jump_allowed(), settings.length);
        let missed = little * 2;
        let (mut lease, all) = (lease(1), view(1, &[1, 2, 3]));
        // The time of day is a little behind, which is not detected.
        lease.handle_clocks(reading(Moment(SECOND), 90 * SECOND));
        let before = reading(Moment(2 * SECOND), 90 * SECOND - 99_999);
        assert_eq!(lease.handle_clocks(before), ClockSight::Steady);
        ask(&mut lease, Moment(2 * SECOND), 2);
        let shown = Moment(2 * SECOND).after(true_time - missed);
        let after = reading(shown, 90 * SECOND + 99_999);
        assert_eq!(lease.handle_clocks(after), ClockSight::Steady);
        assert!(!lease.is_valid(shown, &all), "the grant has run out");
        let drift = settings.drift();
        let slow = Moment(2 * SECOND).after(true_time - missed - drift);
        assert!(!lease.is_valid(slow, &all), "by a slow clock, too");
        assert!(lease.is_valid(Moment(slow.0 - 1), &all));
    }

    #[test]
    fn somebody_alone_needs_no_grant() {
        let alone = View::whole(Epoch(1), [ReplicaSlot(1)].into());
        assert!(lease(1).is_valid(Moment(u64::MAX - 1), &alone));
    }

    /// A machine restarts: its clock of leases begins again, and a grant that its previous incarnation had requested
    /// after 30 days arrives late.
    #[test]
    fn counterexample_44_a_grant_asked_for_in_the_future_gives_no_lease() {
        let month = Moment(30 * 24 * 3600 * SECOND);
        let all = view(1, &[1, 2, 3]);
        let mut previous = lease(1);
        let late = previous.request(month);
        let second = Incarnation(2);
        let settings = LeaseSettings::default();
        let mut lease = SiteLease::new(ReplicaSlot(1), second, settings, Moment(0));
        assert!(!lease.handle_grant(Moment(SECOND), ReplicaSlot(2), late));
        let forged = Question {
            incarnation: second,
            asked: month,
        };
        assert!(!lease.handle_grant(Moment(SECOND), ReplicaSlot(2), forged));
        assert!(!lease.is_valid(Moment(SECOND), &all));
        assert_eq!(lease.unbelieved(), 2);
    }

    /// A snapshot of a machine is restored: the incarnation is the same, and its clock shows earlier times again.
    #[test]
    fn what_this_life_did_not_ask_is_not_believed_though_it_lies_in_the_past() {
        let mut lease = lease(1);
        let asked = lease.request(Moment(SECOND)).asked;
        let never = Question {
            incarnation: FIRST,
            asked: Moment(2 * SECOND),
        };
        assert!(!lease.handle_grant(Moment(3 * SECOND), ReplicaSlot(2), never));
        let of_another = Question {
            incarnation: Incarnation(7),
            asked,
        };
        assert!(!lease.handle_grant(Moment(3 * SECOND), ReplicaSlot(2), of_another));
        assert_eq!(lease.valid_until(&view(1, &[1, 2, 3])), None);
    }

    #[test]
    fn questions_are_forgotten_when_their_answers_are_worth_nothing() {
        let mut lease = lease(1);
        let first = lease.request(Moment(0));
        for second in 1..100 {
            lease.request(Moment(second * SECOND));
        }
        assert!(lease.questions.len() <= 6);
        assert!(!lease.handle_grant(Moment(99 * SECOND), ReplicaSlot(2), first));
    }

    /// A virtual machine was paused for a minute, and its clock of leases did not detect it. Then its time of day is set.
    #[test]
    fn counterexample_50_a_jump_of_the_time_of_day_ends_the_lease_at_once() {
        for jump in [60 * SECOND, SECOND / 2] {
            let (mut lease, all) = (lease(1), view(1, &[1, 2, 3]));
            assert_eq!(
                lease.handle_clocks(reading(Moment(0), 90 * SECOND)),
                ClockSight::Steady
            );
            ask(&mut lease, Moment(SECOND), 2);
            let before = lease.request(Moment(2 * SECOND));
            let now = Moment(2 * SECOND + 1);
            assert!(lease.is_valid(now, &all));
            let sight = lease.handle_clocks(reading(now, 90 * SECOND + jump));
            assert_eq!(sight, ClockSight::Jumped);
            assert!(!lease.is_valid(now, &all));
            // A question from before the jump gives no lease after it.
            assert!(!lease.handle_grant(now, ReplicaSlot(2), before));
            let without = view(2, &[1, 3]);
            assert!(lease.may_enter(&all, &without) > now.after(Duration::from_secs(5)));
            // After one round trip, the lease is valid again.
            ask(&mut lease, Moment(3 * SECOND), 2);
            assert!(lease.is_valid(Moment(3 * SECOND), &all));
            let after = reading(Moment(3 * SECOND), 90 * SECOND + jump);
            assert_eq!(lease.handle_clocks(after), ClockSight::Steady);
        }
    }

    #[test]
    fn the_time_of_day_may_be_set_back_too_and_a_little_counts_for_nothing() {
        let (mut lease, all) = (lease(1), view(1, &[1, 2, 3]));
        lease.handle_clocks(reading(Moment(0), 90 * SECOND));
        ask(&mut lease, Moment(SECOND), 2);
        let little = reading(Moment(SECOND), 90 * SECOND + 99_999);
        assert_eq!(lease.handle_clocks(little), ClockSight::Steady);
        assert!(lease.is_valid(Moment(SECOND), &all));
        let back = reading(Moment(SECOND), 80 * SECOND);
        assert_eq!(lease.handle_clocks(back), ClockSight::Jumped);
        assert!(!lease.is_valid(Moment(SECOND), &all));
    }
}
