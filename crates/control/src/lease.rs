//! The site lease: a replica's time-bounded right to answer clients.
//!
//! A replica may answer as long as a majority has promised to join no view without it. A promise counts from
//! the moment its holder asked, on the holder's clock; for who gave it, from the moment it was given, on that
//! clock. So a replica that is cut off stops by itself before anybody acts without it. Who is asked when,
//! and what a lease is needed for, stay outside.

use crate::moment::Moment;
use crate::rules::Rules;
use crate::view::View;
use std::collections::BTreeMap;
use std::time::Duration;
use vfs::ReplicaSlot;

/// How long promises last, and how far clocks may be apart in speed.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSettings {
    /// How long a promise lasts. Has to be the same at all replicas.
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
            drift_ppm: 500,
            rules: Rules::ALL,
        }
    }
}

/// One replica's lease, and the promises it gave others for theirs.
#[derive(Clone, Debug)]
pub struct SiteLease {
    slot: ReplicaSlot,
    settings: LeaseSettings,
    /// When each promise that this replica has was asked for.
    promises: BTreeMap<ReplicaSlot, Moment>,
    /// Until when each other replica may rely on a promise of this one.
    promised: BTreeMap<ReplicaSlot, Moment>,
    /// Whatever was promised before the start has run out by then.
    forgotten: Moment,
}

impl SiteLease {
    /// A replica that starts has no promises, and does not remember which it gave.
    #[must_use]
    pub fn new(slot: ReplicaSlot, settings: LeaseSettings, started: Moment) -> SiteLease {
        let mut lease = SiteLease {
            slot,
            settings,
            promises: BTreeMap::new(),
            promised: BTreeMap::new(),
            forgotten: started,
        };
        lease.forgotten = started.after(lease.as_promised());
        lease
    }

    /// How long a promise binds who gave it, however slowly the holder's clock runs.
    fn as_promised(&self) -> Duration {
        self.settings.length + self.drift()
    }

    /// How long a promise may be relied upon, however slowly this clock runs.
    fn as_relied_upon(&self) -> Duration {
        self.settings.length.saturating_sub(self.drift())
    }

    fn drift(&self) -> Duration {
        let micros = self.settings.length.as_micros() * u128::from(self.settings.drift_ppm);
        Duration::from_micros(u64::try_from(micros.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// Another replica asks for a promise. `false`: it takes no part in the view in force here, or in
    /// one that is agreed and not in force here yet.
    pub fn handle_ask(&mut self, now: Moment, views: &[&View], from: ReplicaSlot) -> bool {
        let takes_part = views.iter().all(|view| !view.has_lost(from));
        if takes_part {
            let until = now.after(self.as_promised());
            let promised = self.promised.entry(from).or_default();
            *promised = until.max(*promised);
        }
        takes_part
    }

    /// Another replica has promised, asked by this one at that moment.
    pub fn handle_promise(&mut self, from: ReplicaSlot, asked: Moment) {
        let latest = self.promises.entry(from).or_default();
        *latest = asked.max(*latest);
    }

    /// Until when this replica may answer clients in this view; `None` when promises are missing.
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
        let promises = self.promises.iter();
        let counted =
            promises.filter(|(slot, _)| view.configured.contains(slot) && **slot != self.slot);
        let mut asked: Vec<Moment> = counted.map(|(_, asked)| *asked).collect();
        asked.sort_unstable();
        let asked = asked.iter().rev().nth(needed - 1)?;
        Some(asked.after(self.as_relied_upon()))
    }

    /// Whether this replica may answer clients now.
    #[must_use]
    pub fn is_valid(&self, now: Moment, view: &View) -> bool {
        self.valid_until(view).is_some_and(|until| now < until)
    }

    /// When this replica may act in `next`: its promises to all who are not in it have run out.
    #[must_use]
    pub fn may_enter(&self, former: &View, next: &View) -> Moment {
        if !self.settings.rules.promises_bind() {
            return Moment(0);
        }
        let gone = former.active.iter().filter(|slot| next.has_lost(**slot));
        let others = gone.filter(|slot| **slot != self.slot);
        let until = others.map(|slot| {
            let promised = self.promised.get(slot).copied().unwrap_or_default();
            promised.max(self.forgotten)
        });
        until.max().unwrap_or_default()
    }

    /// When each peer's latest promise was asked for, for noticing who is silent.
    #[must_use]
    pub fn last_promise(&self, from: ReplicaSlot) -> Option<Moment> {
        self.promises.get(&from).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Epoch;

    const SECOND: u64 = 1_000_000;

    fn view(epoch: u64, active: &[u16]) -> View {
        View {
            active: active.iter().copied().map(ReplicaSlot).collect(),
            ..View::whole(Epoch(epoch), (1..=3).map(ReplicaSlot).collect())
        }
    }

    fn lease(slot: u16) -> SiteLease {
        SiteLease::new(ReplicaSlot(slot), LeaseSettings::default(), Moment(0))
    }

    #[test]
    fn a_lease_rests_on_a_majority_and_counts_from_the_question() {
        let (mut lease, all) = (lease(1), view(1, &[1, 2, 3]));
        assert!(!lease.is_valid(Moment(1), &all), "nobody has promised");
        lease.handle_promise(ReplicaSlot(2), Moment(SECOND));
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
        assert!(lease.handle_ask(Moment(20 * SECOND), &[&all], ReplicaSlot(1)));
        assert!(lease.may_enter(&all, &without) > Moment(25 * SECOND));
        assert!(!lease.handle_ask(Moment(21 * SECOND), &[&all, &without], ReplicaSlot(1)));
        assert_eq!(lease.may_enter(&all, &all), Moment(0));
    }

    #[test]
    fn whoever_was_restarted_waits_for_promises_it_does_not_remember() {
        let lease = lease(2);
        let (all, without) = (view(1, &[1, 2, 3]), view(2, &[2, 3]));
        assert!(lease.may_enter(&all, &without) > Moment(5 * SECOND));
    }

    #[test]
    fn somebody_alone_needs_no_promise() {
        let alone = View::whole(Epoch(1), [ReplicaSlot(1)].into());
        assert!(lease(1).is_valid(Moment(u64::MAX - 1), &alone));
    }
}
