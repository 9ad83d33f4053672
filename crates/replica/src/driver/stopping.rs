//! The end of a replica: handing over what it has, and ending its conversations and tasks.
//!
//! What must never enter: when it stops.

use std::collections::BTreeSet;

use tokio::task::JoinHandle;
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::members::REMOVED;

impl LocalReplica {
    /// Has a task end with the replica.
    pub(crate) fn keep_task(&self, task: JoinHandle<()>) {
        let mut tasks = self.tasks.lock();
        // Looked at under the lock: `stop` says so before it ends the tasks that are there.
        match *self.stopping.borrow() {
            true => task.abort(),
            false => tasks.push(task),
        }
    }

    /// This replica was removed from the set: it serves nobody and talks to nobody any more.
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
        // First, so that no session begins behind what ends here.
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

    /// Gives up all control, and returns when every member that is in contact knows that, and has everything that was made here.
    /// Control does not end while a member of the view is not in contact; nobody waits for that.
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
