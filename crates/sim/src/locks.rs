//! Locks of files as somebody sees them who sees everything: which client was told that it has one, at which replica
//! that client is, and since when it is nowhere.
//!
//! What a replica knows of locks lies in its copy of the tree. The replicas ask each other which clients they have; that
//! is all they may know of this.

use control::{Moment, ReplicaSlot};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vfs::ObjectId;

/// So long a client may be nowhere before what it holds is given up.
pub(crate) const CLIENT_LEASE: Duration = Duration::from_secs(8);

/// A client that locks files.
pub(crate) type ClientNumber = u64;

/// Who holds which lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locks {
    holders: BTreeMap<ObjectId, ClientNumber>,
    at: BTreeMap<ClientNumber, ReplicaSlot>,
    absent_since: BTreeMap<ClientNumber, Moment>,
    /// Clients that were let go for good: they get no lock any more.
    let_go: BTreeSet<ClientNumber>,
    /// The last operation by which each lock was given up.
    given_up: BTreeMap<(ObjectId, ClientNumber), u64>,
}

impl Locks {
    /// A client is at this replica from now on.
    pub(crate) fn come(&mut self, client: ClientNumber, at: ReplicaSlot) {
        self.at.insert(client, at);
        self.absent_since.remove(&client);
    }

    /// From now on these replicas take part.
    pub(crate) fn note_view(&mut self, active: &BTreeSet<ReplicaSlot>, now: Moment) {
        for (client, at) in &self.at {
            if active.contains(at) {
                self.absent_since.remove(client);
            } else {
                self.absent_since.entry(*client).or_insert(now);
            }
        }
    }

    /// Whether a client that was at a replica which is lost has come to no other one yet.
    pub(crate) fn is_absent(&self, client: ClientNumber) -> bool {
        self.absent_since.contains_key(&client) || self.is_let_go(client)
    }

    /// Whether it has been absent for its lease.
    fn was_long_absent(&self, client: ClientNumber, now: Moment) -> bool {
        let since = self.absent_since.get(&client);
        since.is_some_and(|since| since.after(CLIENT_LEASE) <= now)
    }

    /// Whether what it holds is to be given up.
    pub(crate) fn is_overdue(&self, client: ClientNumber, now: Moment) -> bool {
        self.was_long_absent(client, now) || self.is_let_go(client)
    }

    pub(crate) fn is_let_go(&self, client: ClientNumber) -> bool {
        self.let_go.contains(&client)
    }

    /// A client is told that it has a lock. Returns who has it already.
    pub(crate) fn grant(&mut self, file: ObjectId, client: ClientNumber) -> Option<ClientNumber> {
        let before = self.holders.insert(file, client);
        before.filter(|before| *before != client)
    }

    /// A lock was given back, or is lost with the replica that alone knew of it.
    pub(crate) fn forget(&mut self, file: ObjectId, client: ClientNumber) {
        if self.holders.get(&file) == Some(&client) {
            self.holders.remove(&file);
        }
    }

    /// The operation by which a lock was given up last.
    pub(crate) fn giving_up(&self, file: ObjectId, client: ClientNumber) -> Option<u64> {
        self.given_up.get(&(file, client)).copied()
    }

    pub(crate) fn is_giving_up(&self, file: ObjectId, client: ClientNumber, number: u64) -> bool {
        self.giving_up(file, client) == Some(number)
    }

    /// A lock is being given up by this operation.
    pub(crate) fn give_up(&mut self, file: ObjectId, client: ClientNumber, number: u64) {
        self.given_up.insert((file, client), number);
    }

    /// A client gets no lock any more. Those that it has are its own still if it was not away for its lease.
    pub(crate) fn let_go(&mut self, client: ClientNumber, now: Moment) {
        if self.was_long_absent(client, now) {
            self.holders.retain(|_, holder| *holder != client);
        }
        self.let_go.insert(client);
    }
}
