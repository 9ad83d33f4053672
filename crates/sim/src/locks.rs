//! Locks of files as an observer who sees everything knows them: which client was told that it has a lock, at which replica
//! that client is, and since when it is at no replica.
//!
//! A replica knows the locks in its copy of the tree. The replicas ask each other which clients they have; they may
//! know nothing else of this module.

use control::{Moment, ReplicaSlot};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vfs::ObjectId;

/// How long a client may be at no replica before its locks are given up.
pub(crate) const CLIENT_LEASE: Duration = Duration::from_secs(8);

/// A client that locks files.
pub(crate) type ClientNumber = u64;

/// The holders of locks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locks {
    holders: BTreeMap<ObjectId, ClientNumber>,
    at: BTreeMap<ClientNumber, ReplicaSlot>,
    absent_since: BTreeMap<ClientNumber, Moment>,
    /// Clients that were let go for good: they get no locks any more.
    let_go: BTreeSet<ClientNumber>,
    /// For each lock, the last operation that gave it up.
    given_up: BTreeMap<(ObjectId, ClientNumber), u64>,
}

impl Locks {
    /// A client is at this replica from now on.
    pub(crate) fn come(&mut self, client: ClientNumber, at: ReplicaSlot) {
        self.at.insert(client, at);
        self.absent_since.remove(&client);
    }

    /// From now on these replicas are the members.
    pub(crate) fn note_view(&mut self, active: &BTreeSet<ReplicaSlot>, now: Moment) {
        for (client, at) in &self.at {
            if active.contains(at) {
                self.absent_since.remove(client);
            } else {
                self.absent_since.entry(*client).or_insert(now);
            }
        }
    }

    /// Whether a client of a lost replica has come to no other replica yet.
    pub(crate) fn is_absent(&self, client: ClientNumber) -> bool {
        self.absent_since.contains_key(&client) || self.is_let_go(client)
    }

    /// Whether it has been absent for its lease.
    fn was_long_absent(&self, client: ClientNumber, now: Moment) -> bool {
        let since = self.absent_since.get(&client);
        since.is_some_and(|since| since.after(CLIENT_LEASE) <= now)
    }

    /// Whether its locks have to be given up.
    pub(crate) fn is_overdue(&self, client: ClientNumber, now: Moment) -> bool {
        self.was_long_absent(client, now) || self.is_let_go(client)
    }

    pub(crate) fn is_let_go(&self, client: ClientNumber) -> bool {
        self.let_go.contains(&client)
    }

    /// A client is told that it has a lock. Returns the client that already has it.
    pub(crate) fn grant(&mut self, file: ObjectId, client: ClientNumber) -> Option<ClientNumber> {
        let before = self.holders.insert(file, client);
        before.filter(|before| *before != client)
    }

    /// A lock was given back, or is lost with the only replica that knew of it.
    pub(crate) fn forget(&mut self, file: ObjectId, client: ClientNumber) {
        if self.holders.get(&file) == Some(&client) {
            self.holders.remove(&file);
        }
    }

    /// The last operation that gave a lock up.
    pub(crate) fn giving_up(&self, file: ObjectId, client: ClientNumber) -> Option<u64> {
        self.given_up.get(&(file, client)).copied()
    }

    pub(crate) fn is_giving_up(&self, file: ObjectId, client: ClientNumber, number: u64) -> bool {
        self.giving_up(file, client) == Some(number)
    }

    /// This operation gives a lock up.
    pub(crate) fn give_up(&mut self, file: ObjectId, client: ClientNumber, number: u64) {
        self.given_up.insert((file, client), number);
    }

    /// A client gets no locks any more. It keeps those that it has if it was not away for its lease.
    pub(crate) fn let_go(&mut self, client: ClientNumber, now: Moment) {
        if self.was_long_absent(client, now) {
            self.holders.retain(|_, holder| *holder != client);
        }
        self.let_go.insert(client);
    }
}
