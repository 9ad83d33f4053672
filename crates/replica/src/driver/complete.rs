//! Whose copy is complete: a replica that takes part and is up to date, or was as an earlier incarnation and has not left the view since.
//!
//! All that a replica has acknowledged is on its disk, so a start anew within the view takes nothing away. As a new
//! incarnation it answers nobody before every member has confirmed that it takes part, but who has come level with it lacks nothing: one outside
//! can take the place of a lost member, and get a whole copy, where those who are left were started anew.
//!
//! Who takes part anew is not complete before all members have said that it has what they owed it. What a member owes is known to it
//! alone, so none leaves the view whose copy is the only complete one (counterexample 57).
//!
//! Noted durably, and gone before the replica can be admitted from outside, or gives its copy up. What must never enter: what is
//! decided by it.

use std::sync::atomic::Ordering;

use vfs::{ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;

/// The fact that says so.
const COMPLETE: &[u8] = b"complete";

/// That this copy is not complete any more, to be written with the reason for it.
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

    /// The others go on without this replica, or may.
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

    /// Whether the copy of a member that keeps contents is complete, by its own word in the present view.
    pub(crate) fn has_complete(&self, slot: ReplicaSlot) -> bool {
        if slot == self.slot() {
            return self.is_complete();
        }
        let epoch = self.lease.view().epoch.0;
        let news = self.state.peers.news();
        let said = news.get(&slot).and_then(|news| news.said.as_ref());
        said.is_some_and(|(ask, _)| ask.complete && ask.epoch == epoch)
    }

    /// Whether the others can do without a member: somebody else has a complete copy, or this one keeps none, or an administrator
    /// has removed it.
    pub(crate) fn can_do_without(&self, slot: ReplicaSlot) -> bool {
        let is_removed = |slot| self.state.members.was_removed(slot);
        let stays = |other: &ReplicaSlot| *other != slot && !is_removed(*other);
        let mut others = self.engine.keepers().into_iter().filter(stays);
        is_removed(slot)
            || !self.engine.is_keeper(slot)
            || others.any(|other| self.has_complete(other))
    }
}
