//! Other replicas that are met, followed, and forgotten when they are removed.

use std::sync::{Arc, PoisonError};

use vfs::ReplicaSlot;

use super::{Shared, locked};
use crate::replication::streams;
use crate::state::arrivals::Inbox;

impl Shared {
    /// The replicas whose streams count here: other members, and those that are lost.
    pub(crate) fn followed(&self) -> Vec<ReplicaSlot> {
        self.inboxes().keys().copied().collect()
    }

    /// Keeps a place for the stream of another replica, from wherever it comes.
    pub(crate) fn follow_stream(self: &Arc<Self>, slot: ReplicaSlot) {
        if !self.inboxes().contains_key(&slot) {
            let applied = self.store.applied(slot).unwrap_or_else(|error| {
                tracing::error!(%error, "the position in a stream cannot be read");
                0
            });
            let (inbox, queue) = Inbox::new(slot, applied);
            self.engine
                .turn(|turn| turn.ledger.heard.insert(slot, applied));
            let inbox = Arc::new(inbox);
            self.inboxes().insert(slot, inbox.clone());
            let applying = tokio::spawn(streams::apply(self.clone(), inbox, queue));
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.push(applying);
        }
    }

    /// Keeps connections to a peer, and a place for what it sends. Again: learns its addresses.
    pub(crate) fn meet(self: &Arc<Self>, slot: ReplicaSlot, addresses: Vec<String>) {
        self.follow_stream(slot);
        if let Some(endpoint) = self.endpoint.get() {
            endpoint.connect(slot, addresses);
        }
    }

    /// Forgets a member that was removed, and follows its stream no longer.
    pub(crate) fn forget_member(&self, slot: ReplicaSlot) {
        let alone = self.drop_member(slot);
        self.engine.set_alone(alone);
        locked(&self.news).remove(&slot);
        locked(&self.debts).remove(&slot);
        locked(&self.completed).remove(&slot);
        locked(&self.writers).retain(|_, writer| *writer != slot);
        if let Some(inbox) = self.inboxes().remove(&slot) {
            inbox.end();
        }
    }
}
