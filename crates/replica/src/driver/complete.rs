//! Which copies are complete: those of replicas that take part and are up to date, or were in an earlier incarnation and have not left the view
//! since.
//!
//! A replica has everything that it has acknowledged on its disk, so a restart within the view loses nothing. As a new incarnation it answers no
//! client before every member has confirmed that it takes part, but a replica that has come level with it lacks nothing. So if the remaining members
//! were restarted, a replica outside can replace a lost member, and get a whole copy.
//!
//! A newly admitted replica is not complete before all members have said that it has what they owed it. Only a member itself knows what it owes, so a
//! member with the only complete copy never leaves the view (counterexample 57).
//!
//! The fact is noted durably, and removed before the replica can be admitted from outside, or gives its copy up.
//!
//! What must never enter: decisions based on it.

use std::sync::atomic::Ordering;

use vfs::{ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;

/// The fact that says so.
const COMPLETE: &[u8] = b"complete";

/// Says that this copy is no longer complete; to be written together with the reason.
pub(crate) fn no_more() -> (Vec<u8>, Option<Vec<u8>>) {
    (COMPLETE.to_vec(), None)
}

impl LocalReplica {
    /// What an earlier incarnation has noted.
    pub(crate) fn remember_complete(&self) -> Result<()> {
        let noted = !self.store.facts(COMPLETE)?.is_empty();
        self.state.complete.store(noted, Ordering::Release);
        Ok(())
    }

    /// This replica is up to date.
    pub(crate) async fn note_complete(&self) -> Result<()> {
        if !self.state.complete.swap(true, Ordering::AcqRel) {
            let rows = vec![(COMPLETE.to_vec(), Some(Vec::new()))];
            self.store.put_facts(rows).await?;
        }
        Ok(())
    }

    /// The others continue without this replica, or may.
    pub(crate) async fn forget_complete(&self) -> Result<()> {
        if self.state.complete.swap(false, Ordering::AcqRel) {
            let ticket = self.store.put_facts(vec![no_more()]).await?;
            self.store.wait_stable(ticket).await?;
        }
        Ok(())
    }

    /// Whether this replica's copy is complete.
    pub(crate) fn is_complete(&self) -> bool {
        let was = self.state.complete.load(Ordering::Acquire);
        let stays = !self.state.needs_copy.load(Ordering::Acquire);
        self.takes_part() && (self.lease.is_up_to_date() || (was && stays && self.is_whole()))
    }

    /// Whether the copy of a member that keeps contents is complete, by its own report in the present view.
    pub(crate) fn has_complete(&self, slot: ReplicaSlot) -> bool {
        if slot == self.slot() {
            return self.is_complete();
        }
        let epoch = self.lease.view().epoch.0;
        let news = self.state.peers.news();
        let said = news.get(&slot).and_then(|news| news.said.as_ref());
        said.is_some_and(|(request, _)| request.complete && request.epoch == epoch)
    }

    /// Whether the others can do without a member: another member has a complete copy, or this one keeps no contents, or an administrator has removed
    /// it.
    pub(crate) fn can_do_without(&self, slot: ReplicaSlot) -> bool {
        let is_removed = |slot| self.state.members.was_removed(slot);
        let stays = |other: &ReplicaSlot| *other != slot && !is_removed(*other);
        let mut others = self.engine.keepers().into_iter().filter(stays);
        is_removed(slot)
            || !self.engine.is_keeper(slot)
            || others.any(|other| self.has_complete(other))
    }
}
