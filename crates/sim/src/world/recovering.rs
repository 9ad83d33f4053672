//! A majority is gone for ever, and an administrator says so at one of the remaining replicas: from then on they are the whole
//! set, and go on with what they have. What only the others knew is given up, decisions included.

use super::{Event, World};
use crate::tree::{Intent, Outcome};
use control::{ReplicaSlot, Tree};
use std::collections::BTreeSet;
use std::time::Duration;
use vfs::ObjectId;

/// How long the server with this administrator stands still.
const STANDS_STILL: Duration = Duration::from_millis(100);

impl World {
    /// Whether an administrator may say at this replica that all stopped replicas are gone. They must be a majority, and no running
    /// replica may know later decisions, or have contents if this one has none.
    #[must_use]
    pub fn may_recover(&self, by: ReplicaSlot) -> bool {
        let present = self.agreed.present();
        let runs = |slot: &&ReplicaSlot| self.replicas[*slot].site.up;
        let running = present.configured.iter().filter(runs).count();
        let site = &self.replicas[&by].site;
        let mut others = self.replicas.values().map(|replica| &replica.site);
        let latest = others.all(|other| !other.up || other.learnt <= site.learnt);
        let known = self.agreed.view(site.learnt);
        let whole = self.holds_data(by) && !site.cut && !site.stale;
        running < present.majority() && site.up && known.configured.contains(&by) && whole && latest
    }

    /// Whether a replica was removed, or was given up with a majority.
    #[must_use]
    pub fn is_gone(&self, slot: ReplicaSlot) -> bool {
        self.gone.contains(&slot)
    }

    pub(super) fn recover(&mut self, by: ReplicaSlot) {
        if !self.may_recover(by) {
            return;
        }
        let known = self.replicas[&by].site.learnt;
        let configured = self.agreed.view(known).configured.clone();
        let runs = |slot: &ReplicaSlot| self.replicas[slot].site.up;
        let (survivors, mut gone): (BTreeSet<_>, BTreeSet<_>) =
            configured.into_iter().partition(runs);
        // Replicas that were admitted by a decision that is given up.
        let ahead = self.replicas.values();
        let ahead = ahead.filter(|replica| replica.site.learnt > known);
        gone.extend(ahead.map(|replica| replica.slot));
        self.crash(by);
        self.events.retain(
            |_, event| !matches!(event, Event::Deliver { from, .. } if gone.contains(from)),
        );
        let witnesses = self.witnesses.clone();
        self.agreed
            .recover(known, &survivors, by, |slot| !witnesses.contains(&slot));
        self.replica(by).site.learnt = self.agreed.len();
        let with_data = gone.iter().filter(|slot| self.holds_data(**slot));
        let with_data: BTreeSet<ReplicaSlot> = with_data.copied().collect();
        self.unsettled.extend(with_data);
        self.gone.extend(gone);
        self.recovered = true;
        self.note_recovered();
        self.fail(STANDS_STILL, super::Fault::Start(by));
    }

    /// From now on only the data of the present members counts.
    fn note_recovered(&mut self) {
        let base = self.agreed.present().active.clone();
        let holders = base.into_iter().filter(|slot| self.holds_data(*slot));
        let holders: Vec<ReplicaSlot> = holders.collect();
        let done = holders.iter().map(|slot| self.replicas[slot].kept_done());
        let done: BTreeSet<u64> = done.flatten().copied().collect();
        let answered = (0u64..)
            .zip(&self.operations)
            .filter(|(number, operation)| {
                let answered = matches!(operation.outcome, Some((Outcome::Done, _)));
                let write = matches!(operation.intent, Intent::Write(_));
                answered && !write && !done.contains(number)
            });
        let lost: Vec<u64> = answered.map(|(number, _)| number).collect();
        self.discarded.extend(lost);
        self.forget_discarded_locks();
        let kept = |world: &World, object: ObjectId| {
            let versions = holders.iter();
            let versions = versions.map(|slot| world.replicas[slot].kept_tree());
            versions.filter_map(|tree| tree.version(object)).max()
        };
        for object in self.newest.keys().copied().collect::<Vec<_>>() {
            let version = kept(self, object).unwrap_or(0);
            self.newest.insert(object, version);
        }
        for file in self.closed.keys().copied().collect::<Vec<_>>() {
            let directories = match holders.first() {
                Some(slot) => self.replicas[slot].kept_tree().parents(file),
                None => Vec::new(),
            };
            match (kept(self, file), self.closed.get_mut(&file)) {
                (Some(kept), Some(closed)) => {
                    closed.version = closed.version.min(kept);
                    closed.directories = directories;
                }
                _ => drop(self.closed.remove(&file)),
            }
        }
        let mut removed = std::mem::take(&mut self.removed);
        removed.retain(|file| kept(self, *file).is_none());
        self.removed = removed;
    }

    /// The first active member has the streams of the given-up replicas settled. Whether there are
    /// any.
    pub(super) fn settle_the_given_up(&mut self, slot: ReplicaSlot) -> bool {
        let Some(lost) = self.unsettled.first().copied() else {
            return false;
        };
        let active: Vec<ReplicaSlot> = self.agreed.present().active.iter().copied().collect();
        let begun = |slot: &ReplicaSlot| self.replicas[slot].site.closed_to.contains(&lost);
        if active.first() == Some(&slot) && !active.iter().any(begun) {
            self.begin_settling(lost);
        }
        true
    }
}
