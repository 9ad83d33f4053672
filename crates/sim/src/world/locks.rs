//! Locks: who is refused one, what a client is told, and what becomes of those whose clients stay away.

use super::{World, place};
use crate::tree::{Intent, Outcome};
use control::ReplicaSlot;
use std::time::Duration;

impl World {
    /// A client that wants to lock something is at the replica that it asks.
    pub(super) fn note_client(&mut self, number: u64) {
        let operation = &self.operations[place(number)];
        let (home, intent) = (operation.home, operation.intent);
        if let Intent::Lock { client, .. } = intent
            && self.replicas[&home].site.up
        {
            self.locks.come(client, home);
            let active = self.agreed.present().active.clone();
            self.locks.note_view(&active, self.now);
        }
    }

    /// Whether somebody else holds the lock that is wanted, as the primary's copy says, or who wants it was let go.
    pub(super) fn refuses_lock(&self, slot: ReplicaSlot, intent: &Intent) -> bool {
        let tree = &self.replicas[&slot].tree;
        let Intent::Lock { file, client } = *intent else {
            return false;
        };
        let other = tree.lock_of(file).is_some_and(|holder| holder != client);
        other || self.locks.is_let_go(client)
    }

    /// A lock is given back by its client; what is given up in its place is still its own as far as it knows.
    pub(super) fn note_unlocked(&mut self, number: u64) {
        if let Intent::Unlock { file, client } = self.operations[place(number)].intent
            && !self.locks.is_giving_up(file, client, number)
        {
            self.locks.forget(file, client);
        }
    }

    /// What a client is told of an operation in the end; it is about to be told that.
    pub(super) fn tell_of_lock(&mut self, number: u64, outcome: Outcome) -> Outcome {
        let intent = self.operations[place(number)].intent;
        let Intent::Lock { file, client } = intent else {
            return outcome;
        };
        if outcome == Outcome::Refused || self.locks.is_let_go(client) {
            return Outcome::Refused;
        }
        if let Some(other) = self.locks.grant(file, client) {
            let sight = format!(
                "client {client} is told that it has locked {file}, which client {other} has"
            );
            self.report("NFS (a lock has one holder)", sight);
        }
        outcome
    }

    /// The first of those who take part gives up the locks of clients that have come back to nobody.
    pub(super) fn look_after_absent(&mut self, slot: ReplicaSlot) {
        let replica = &self.replicas[&slot];
        let first = replica.core.view().active.first() == Some(&slot);
        if !first || !self.may_answer(slot) {
            return;
        }
        let locks: Vec<_> = replica.tree.locks().collect();
        for (file, client) in locks {
            let overdue = self.locks.is_overdue(client, self.now)
                || (self.locks.is_absent(client) && !self.model.absent_clients_have_a_lease);
            let under_way = self.locks.giving_up(file, client);
            let ended = |number: u64| self.operations[place(number)].outcome.is_some();
            if overdue && under_way.is_none_or(ended) {
                self.locks.let_go(client, self.now);
                let unlock = Intent::Unlock { file, client };
                let number = self.submit(Duration::ZERO, slot, unlock);
                self.locks.give_up(file, client, number);
            }
        }
    }

    /// Locks that only a replica had which is given up do not exist any more.
    pub(super) fn forget_discarded_locks(&mut self) {
        for number in &self.discarded {
            if let Intent::Lock { file, client } = self.operations[place(*number)].intent {
                self.locks.forget(file, client);
            }
        }
    }
}
