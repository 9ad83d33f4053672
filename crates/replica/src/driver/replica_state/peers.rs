//! Other replicas that are followed, and forgotten when they are removed; whether they are in contact.

use tokio::task::JoinHandle;
use tokio::time::Instant;
use vfs::ReplicaSlot;

use super::ReplicaState;
use crate::state::views::alone_since;

impl ReplicaState {
    /// Has a task end with the replica.
    pub(crate) fn keep_task(&self, task: JoinHandle<()>) {
        let mut tasks = self.tasks.lock();
        // Looked at under the lock: `part` says so before it ends the tasks that are there.
        match *self.parting.borrow() {
            true => task.abort(),
            false => tasks.push(task),
        }
    }

    /// The replicas whose streams count here: other members, and those that are lost.
    pub(crate) fn followed(&self) -> Vec<ReplicaSlot> {
        self.inboxes().keys().copied().collect()
    }

    /// Forgets a member that was removed, and follows its stream no longer.
    pub(crate) fn forget_member(&self, slot: ReplicaSlot) {
        let alone = self.drop_member(slot);
        self.engine.set_alone(alone);
        self.forget(slot);
        self.writers.lock().retain(|_, writer| *writer != slot);
        if let Some(inbox) = self.inboxes().remove(&slot) {
            inbox.end();
        }
    }

    /// Whether so few members have answered lately that no majority is in contact. For a while after its start this replica
    /// cannot tell, and hopes.
    pub(crate) fn is_cut_off(&self) -> bool {
        let at = self.cut_off_at();
        at.is_some_and(|at| Instant::now() > at)
    }

    /// From when on that is so, unless somebody answers before; `None` while no silence makes it so.
    pub(crate) fn cut_off_at(&self) -> Option<Instant> {
        let (state, news) = (self.view_state()?, self.news());
        let voters = state.voters();
        let others = voters.iter().filter(|slot| **slot != self.slot());
        let heard = others.filter_map(|slot| Some(news.get(slot)?.heard));
        let own = usize::from(voters.contains(&self.slot()));
        let needed = state.majority().saturating_sub(own);
        let since = alone_since(heard.collect(), needed, self.began)?;
        Some(since + self.settings.suspicion)
    }

    /// The others who take part and hold contents.
    pub(crate) fn holders(&self) -> Vec<ReplicaSlot> {
        let mut keepers = self.engine.keepers();
        keepers.remove(&self.slot());
        keepers.into_iter().collect()
    }

    /// The same, of those that are in contact.
    pub(crate) fn holders_in_contact(&self) -> Vec<ReplicaSlot> {
        let mut holders = self.holders();
        holders.retain(|slot| self.outbound.is_in_session(*slot));
        holders
    }

    /// Members that are lost, and whose controls nobody has ended. Who takes no part knows of none.
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

    /// How far another replica's stream is applied here, stably.
    pub(crate) fn applied_here(&self, of: ReplicaSlot) -> u64 {
        self.inbox(of).map_or(0, |inbox| inbox.acknowledged())
    }

    /// What was made up to here may have brought anything under `majority`.
    pub(crate) fn begin_awareness(&self) {
        let own = self.engine.last_position();
        let others: Vec<(ReplicaSlot, u64)> = {
            let inboxes = self.inboxes();
            let applied = inboxes.iter();
            applied
                .map(|(slot, inbox)| (*slot, inbox.applied()))
                .collect()
        };
        let all = others.into_iter().chain([(self.slot(), own)]);
        self.losses.awareness().begin(all);
    }
}
