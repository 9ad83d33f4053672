//! The end of a replica: it hands over what it has, and ends its conversations and tasks.
//!
//! What must never enter: when it stops.

use std::collections::BTreeSet;

use tokio::task::JoinHandle;
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::members::REMOVED;

impl LocalReplica {
    /// Ends a task with the replica.
    pub(crate) fn keep_task(&self, task: JoinHandle<()>) {
        let mut tasks = self.tasks.lock();
        // Checked under the lock: `stop` sets the flag before it ends the tasks that are there.
        match *self.stopping.borrow() {
            true => task.abort(),
            false => tasks.push(task),
        }
    }

    /// This replica was removed from the set: it no longer serves clients or talks to replicas.
    pub(crate) fn end_as_removed(&self) {
        if self.lease.end() {
            tracing::error!("{REMOVED}");
            self.stop();
        }
    }

    /// Returns when the replica stops.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // The sender lives in `self`.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Ends all conversations.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
        self.state.scrub.stop();
        // First, so that no session begins after the others have ended.
        if let Some(endpoint) = self.endpoint.get() {
            endpoint.close();
        }
        let mut tasks = self.tasks.lock();
        tasks.drain(..).for_each(|task| task.abort());
        drop(tasks);
        self.state.inboxes.lock().clear();
        self.state.conversations.end_all();
        self.state.copies.end_all();
    }

    /// Gives up all control. Returns when every connected member knows that, and has everything that was made here. Control does not end while a
    /// member of the view is not connected; then this does not wait for it.
    pub(crate) async fn everything_everywhere(&self) {
        self.engine.expedite(None);
        self.engine.with_core(|guard| guard.retire());
        self.engine
            .until_core(|guard| {
                let present = |slot: &ReplicaSlot| self.state.outbound.is_in_session(*slot);
                let present: BTreeSet<ReplicaSlot> = self
                    .state
                    .members
                    .others()
                    .into_iter()
                    .filter(present)
                    .collect();
                let ledger = &guard.ledger;
                let mut peers = ledger.unshipped.peers();
                let done = peers.all(|(slot, backlog)| {
                    let applied = ledger.applied.get(&slot).copied().unwrap_or(0);
                    !present.contains(&slot)
                        || (backlog.files() == 0 && applied >= ledger.last_position)
                });
                let own = self.slot();
                let mut active = guard.ledger.active.iter().filter(|slot| **slot != own);
                let may_retire = self.takes_part() && active.all(|slot| present.contains(slot));
                (done && (!may_retire || guard.has_retired(&present))).then_some(())
            })
            .await;
    }
}
