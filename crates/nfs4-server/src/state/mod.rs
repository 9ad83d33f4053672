//! The server's memory of its NFS clients: their identities, sessions, opens, locks and layouts.
//!
//! Pure: the time is an argument, and external actions (files to close, locks to release, records to write) are
//! results. Nothing here waits, reads a clock, or knows sockets, file systems or disks. [`vfs::FileSystem`] decides
//! about conflicts between owners; this module only knows the meaning of each stateid.

mod back_channel;
mod census;
mod client;
mod crowd;
mod departure;
mod grace;
mod layout;
mod memory;
mod newcomers;
mod numbers;
mod open;
mod session;
mod space;
mod stateid;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs4::{NfsStat4, SessionId4};
use vfs::{LockOwner, ObjectId, OpenOwner};

use crate::layouts::LayoutHolder;
use crate::records::ClientRecord;

pub use back_channel::{BackChannel, BackChannelHealth, Callback, CallbackEnd};
pub use census::ClientView;
pub use client::{ClientId, ClientIdentity, ExchangeRequest, Exchanged, Principal};
pub use departure::Departure;
pub use grace::{Reclaim, Recording};
pub use layout::LayoutEnd;
pub use memory::Memory;
pub use numbers::KEY_BYTES;
pub use open::{LockGrant, OpenFile, OpenGrant};
pub use session::{
    ConnectionId, CreateSession, CreatedSession, ReplySlot, SequenceRequest, Sequenced,
    SessionChannel,
};
pub use space::StateKind;
pub use stateid::{Resolved, StateidUse};

#[cfg(test)]
mod tests;

use client::{Client, OwnerRecords, Unconfirmed};
use departure::{Departures, Executing, Stays};
use grace::Grace;
use layout::LayoutTable;
use newcomers::Newcomers;
use numbers::Numbers;
use open::{Lock, Open};
use session::{Associations, Session};

/// Bounds on the state that clients can create, and timeouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a client may be silent before its state is dropped (RFC 8881, section 8.3).
    pub lease: Duration,
    /// How long after a start only reclaims are accepted (RFC 8881, section 8.4.2.1); up to one lease longer while
    /// clients reclaim.
    pub grace: Duration,
    /// Slots in a session's reply cache.
    pub slots: u32,
    /// Largest request, in bytes, RPC header included.
    pub request_bytes: u32,
    /// Largest reply, in bytes, RPC header included.
    pub response_bytes: u32,
    /// The largest cached reply, in bytes.
    pub cached_response_bytes: u32,
    /// Operations in one COMPOUND.
    pub operations: u32,
    /// Confirmed client records.
    pub clients: usize,
    /// Sessions of one client.
    pub sessions_per_client: usize,
    /// Open files and byte-range lock states of one client, each.
    pub states_per_client: usize,
    /// Memory for all state of clients, in bytes (see [`Memory`]).
    pub memory_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            lease: Duration::from_secs(90),
            grace: Duration::from_secs(90),
            slots: 64,
            request_bytes: (1 << 20) + (8 << 10),
            response_bytes: (1 << 20) + (8 << 10),
            cached_response_bytes: 8 << 10,
            operations: 64,
            clients: 10_000,
            sessions_per_client: 64,
            states_per_client: 200_000,
            memory_bytes: 1 << 30,
        }
    }
}

/// A file in the state tables: the tree of an export, and an object in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Index of the tree among the exported ones.
    pub tree: usize,
    /// The file.
    pub object: ObjectId,
}

/// State of a vanished client behind the file system boundary that must be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// Close the file for this owner.
    Open(FileKey, OpenOwner),
    /// Close the file for this owner, which may have opened it again at another server: what it denies to others stays.
    Leave(FileKey, OpenOwner),
    /// Release all locks of this owner on the file.
    Locks(FileKey, LockOwner),
    /// Tell the home of the file how a layout has ended.
    Layout(FileKey, LayoutHolder, LayoutEnd),
    /// Remove the record with which this client may reclaim after a restart.
    Record(Arc<[u8]>),
}

/// All NFS state of one server.
#[derive(Debug)]
pub struct State {
    limits: Limits,
    numbers: Numbers,
    clients: HashMap<ClientId, Client>,
    owners: HashMap<Arc<[u8]>, OwnerRecords>,
    unconfirmed: Unconfirmed,
    departures: Departures,
    /// Until then no client can make room for others.
    nobody_goes_until: Option<Instant>,
    memory: Memory,
    sessions: HashMap<SessionId4, Session>,
    associations: Associations,
    /// Sessions that are never used again, until the file systems have been told.
    ended_sessions: Vec<SessionId4>,
    opens: HashMap<u64, Open>,
    open_index: HashMap<(ClientId, Arc<[u8]>, FileKey), u64>,
    locks: HashMap<u64, Lock>,
    lock_index: HashMap<(ClientId, Arc<[u8]>, FileKey), u64>,
    layouts: LayoutTable,
    grace: Grace,
    newcomers: Newcomers,
}

impl State {
    /// Starts with only the records of the clients that may reclaim. `incarnation` must differ from those of earlier
    /// starts, and `key` must be random, so that the numbers for clients cannot be guessed.
    #[must_use]
    pub fn new(
        limits: Limits,
        incarnation: u32,
        key: [u8; KEY_BYTES],
        may_reclaim: impl IntoIterator<Item = ClientRecord>,
        now: Instant,
    ) -> State {
        let grace = Grace::new(may_reclaim, now, &limits);
        State {
            limits,
            numbers: Numbers::new(key, incarnation),
            clients: HashMap::new(),
            owners: HashMap::new(),
            unconfirmed: Unconfirmed::default(),
            departures: Departures::default(),
            nobody_goes_until: None,
            memory: Memory::default(),
            sessions: HashMap::new(),
            associations: Associations::new(),
            ended_sessions: Vec::new(),
            opens: HashMap::new(),
            open_index: HashMap::new(),
            locks: HashMap::new(),
            lock_index: HashMap::new(),
            layouts: LayoutTable::default(),
            grace,
            newcomers: Newcomers::default(),
        }
    }

    /// The bounds in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Drops clients with an expired lease, and unconfirmed records that were not confirmed in time.
    pub fn expire(&mut self, now: Instant) -> Vec<Departure> {
        self.end_newcomers(now);
        let lease = self.limits.lease;
        let gone: Vec<ClientId> = self
            .clients
            .values()
            .filter(|client| client.is_expired(now, lease))
            .filter(|client| !self.has_request_under_way(client))
            .map(|client| client.id)
            .collect();
        gone.into_iter()
            .filter_map(|id| self.remove_client(id))
            .collect()
    }

    /// The amount of state: clients, sessions, opens, locks.
    #[must_use]
    pub fn counts(&self) -> StateCounts {
        StateCounts {
            clients: self
                .clients
                .values()
                .filter(|client| client.confirmed)
                .count(),
            sessions: self.sessions.len(),
            opens: self.opens.len(),
            locks: self.locks.len(),
            memory: self.memory,
        }
    }

    /// The clients that have sessions.
    pub fn present(&self) -> impl Iterator<Item = ClientId> {
        let present = self.clients.values();
        let present = present.filter(|client| !client.sessions.is_empty());
        present.map(|client| client.id)
    }

    /// Removes a client from the tables. The caller must release the state in the departure.
    fn remove_client(&mut self, id: ClientId) -> Option<Departure> {
        let client = self.take_out(id)?;
        self.depart(client, Stays::In(BTreeSet::new()))
    }

    fn take_out(&mut self, id: ClientId) -> Option<(Client, Executing)> {
        let client = self.clients.remove(&id)?;
        self.lose(&client);
        let executing = self.executing(&client);
        for session in &client.sessions {
            self.remove_session(*session);
        }
        let records = self.owners.entry(client.owner.clone()).or_default();
        records.forget(id);
        if records.is_empty() {
            self.owners.remove(&client.owner);
        }
        self.unconfirmed.remove(client.arrival);
        Some((client, executing))
    }

    fn confirmed(&self, id: ClientId) -> Result<&Client, NfsStat4> {
        self.clients
            .get(&id)
            .filter(|client| client.confirmed)
            .ok_or(NfsStat4::StaleClientid)
    }
}

/// The amount of state of a server's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCounts {
    /// Confirmed clients.
    pub clients: usize,
    /// Sessions.
    pub sessions: usize,
    /// Open files, counted by owner.
    pub opens: usize,
    /// Byte-range lock states, counted by owner and file.
    pub locks: usize,
    /// The used memory for clients.
    pub memory: Memory,
}
