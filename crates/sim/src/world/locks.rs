//! Locks: when they are refused, what clients are told, and what happens to the locks of absent clients.

use super::{World, place};
use crate::tree::{Intent, Outcome};
use control::ReplicaSlot;
use std::time::Duration;

impl World {
    /// A client that wants a lock is at the replica that it asks.
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

    /// Whether another client holds the wanted lock, as the primary's copy says, or the client was let go.
    pub(super) fn refuses_lock(&self, slot: ReplicaSlot, intent: &Intent) -> bool {
        let tree = &self.replicas[&slot].tree;
        let Intent::Lock { file, client } = *intent else {
            return false;
        };
        let other = tree.lock_of(file).is_some_and(|holder| holder != client);
        other || self.locks.is_let_go(client)
    }

    /// A client unlocks a file. If the lock is given up for the client instead, the client still believes to have it.
    pub(super) fn note_unlocked(&mut self, number: u64) {
        if let Intent::Unlock { file, client } = self.operations[place(number)].intent
            && !self.locks.is_giving_up(file, client, number)
        {
            self.locks.forget(file, client);
        }
    }

    /// Notes the outcome of an operation that a client is about to be told, and returns it.
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

    /// The first active member gives up the locks of clients that have come to no replica since.
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

    /// Locks that only a given-up replica had do not exist any more.
    pub(super) fn forget_discarded_locks(&mut self) {
        for number in &self.discarded {
            if let Intent::Lock { file, client } = self.operations[place(*number)].intent {
                self.locks.forget(file, client);
            }
        }
    }
}
