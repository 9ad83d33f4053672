//! Follows other replicas, forgets them when they are removed, and knows whether they are in contact.

use tokio::time::Instant;
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::members::{Hearer, Speaker};
use crate::state::views::alone_since;

impl LocalReplica {
    /// What another replica is, as far as is known here.
    pub(crate) fn speaker(&self, slot: ReplicaSlot) -> Speaker {
        let known = self.state.members.speaker(slot);
        known.unwrap_or_else(|| match self.lease.has_in_view(slot) {
            true => Speaker::InView,
            false => Speaker::Outside,
        })
    }

    /// What this replica is.
    pub(crate) fn hearer(&self) -> Hearer {
        if self.state.members.is_removed() {
            return Hearer::Removed;
        }
        if self.state.is_witness {
            return Hearer::Witness;
        }
        match self.lease.has_in_view(self.slot()) {
            true => Hearer::InView,
            false => Hearer::Outside,
        }
    }

    /// Forgets what was known lately of a removed replica.
    pub(crate) fn forget(&self, slot: ReplicaSlot) {
        self.state.peers.forget(slot);
        self.state.debts.lock().remove(&slot);
    }

    /// Forgets a removed member, and stops following its stream.
    pub(crate) fn forget_member(&self, slot: ReplicaSlot) {
        let alone = self.state.members.drop_member(slot);
        self.engine.set_alone(alone);
        self.forget(slot);
        self.state.writers.forget(slot);
        if let Some(inbox) = self.state.inboxes.lock().remove(&slot) {
            inbox.end();
        }
    }

    /// Whether too few members have answered lately to make a majority. For a while after its start this replica cannot tell, and assumes that it is
    /// not cut off.
    pub(crate) fn is_cut_off(&self) -> bool {
        let at = self.cut_off_at();
        at.is_some_and(|at| Instant::now() > at)
    }

    /// From when on that holds, unless a member answers before; `None` if no silence leads to it.
    pub(crate) fn cut_off_at(&self) -> Option<Instant> {
        let (state, news) = (self.view_state()?, self.state.peers.news());
        let voters = state.voters();
        let others = voters.iter().filter(|slot| **slot != self.slot());
        let heard = others.filter_map(|slot| Some(news.get(slot)?.heard));
        let own = usize::from(voters.contains(&self.slot()));
        let needed = state.majority().saturating_sub(own);
        let since = alone_since(heard.collect(), needed, self.state.began)?;
        Some(since + self.state.settings.suspicion)
    }

    /// The other replicas that take part and hold contents.
    pub(crate) fn holders(&self) -> Vec<ReplicaSlot> {
        let mut keepers = self.engine.keepers();
        keepers.remove(&self.slot());
        keepers.into_iter().collect()
    }

    /// The same, of those that are in contact.
    pub(crate) fn holders_in_contact(&self) -> Vec<ReplicaSlot> {
        let mut holders = self.holders();
        holders.retain(|slot| self.state.outbound.is_in_session(*slot));
        holders
    }

    /// Lost members whose controls have not been ended. A replica that takes no part knows of none.
    pub(crate) fn lost(&self) -> Vec<ReplicaSlot> {
        if !self.takes_part() {
            return Vec::new();
        }
        let Some(state) = self.view_state() else {
            return Vec::new();
        };
        let lost = state.losses.keys().copied();
        lost.filter(|slot| !state.is_settled(*slot)).collect()
    }

    /// What was made up to here may have brought anything under `majority`.
    pub(crate) fn begin_awareness(&self) {
        let own = self.engine.last_position();
        let others: Vec<(ReplicaSlot, u64)> = {
            let inboxes = self.state.inboxes.lock();
            let applied = inboxes.iter();
            applied
                .map(|(slot, inbox)| (*slot, inbox.applied()))
                .collect()
        };
        let all = others.into_iter().chain([(self.slot(), own)]);
        self.state.losses.awareness().begin(all);
    }
}
