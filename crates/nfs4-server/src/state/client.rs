//! Client records: the identity and the incarnation of each client (RFC 8881, section 2.4).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs4::{NfsStat4, SessionId4};

use super::departure::Stays;
use super::layout::Devices;
use super::newcomers::Newcomer;
use super::session::CreatedSession;
use super::space::Kept;
use super::{Departure, State};
use crate::records::{ClientRecord, KnownBy};

/// The short identifier of a client, from EXCHANGE_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// The identity of a request's sender, as far as the security flavor tells; decides which requests may change a client record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Principal {
    /// AUTH_NONE.
    Nobody,
    /// AUTH_SYS, with the user id the client claims.
    User(u32),
}

/// How a client introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The client's own name, which survives its restarts (`co_ownerid`).
    pub owner: Arc<[u8]>,
    /// Changes with every restart of the client (`co_verifier`).
    pub verifier: [u8; 8],
    /// The principal of its credentials.
    pub principal: Principal,
    /// The address from which it sends.
    pub address: IpAddr,
}

/// The parts of an EXCHANGE_ID request that decide about it.
#[derive(Clone, Debug)]
pub struct ExchangeRequest {
    /// The client.
    pub identity: ClientIdentity,
    /// Whether to update an existing confirmed record.
    pub update: bool,
    /// The implementation's name, for status displays.
    pub implementation: String,
    /// The minor version of NFSv4 of the request, also for status displays.
    pub minor_version: u32,
}

/// The answer to EXCHANGE_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// The record's identifier.
    pub client: ClientId,
    /// Sequence number that the next CREATE_SESSION must carry.
    pub sequence: u32,
    /// Whether the record was already confirmed.
    pub confirmed: bool,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: ClientId,
    /// Grows from record to record.
    pub(super) arrival: u64,
    pub(super) owner: Arc<[u8]>,
    verifier: [u8; 8],
    /// The client's name for file systems: verifier and owner. It is the same at every server, and changes with each
    /// restart of the client.
    pub(super) name: Arc<[u8]>,
    pub(super) principal: Principal,
    /// The address from which it introduced itself, and its network.
    pub(super) address: IpAddr,
    pub(super) network: IpAddr,
    pub(super) confirmed: bool,
    pub(super) implementation: String,
    pub(super) minor_version: u32,
    /// When it introduced itself.
    pub(super) since: Instant,
    /// The sequence number that the next new CREATE_SESSION carries.
    pub(super) next_create: u32,
    pub(super) last_create: Option<CreatedSession>,
    /// Whether a CREATE_SESSION with that number was refused.
    pub(super) create_refused: bool,
    pub(super) renewed: Instant,
    /// When its last request came.
    heard: Instant,
    /// The first and the last request of another host for its name, if there were any.
    contested: Option<(Instant, Instant)>,
    pub(super) sessions: Vec<SessionId4>,
    pub(super) opens: HashSet<u64>,
    pub(super) locks: HashSet<u64>,
    pub(super) layouts: HashSet<u64>,
    pub(super) kept: Kept,
    /// The devices that it wants to be notified about.
    pub(super) devices: Devices,
    /// Whether the client has said that it reclaimed everything.
    pub(super) reclaim_complete: bool,
    /// Whether it has a record on stable storage.
    pub(super) recorded: bool,
    /// Whether the client held state before the server restarted.
    pub(super) may_reclaim: bool,
    /// Its rights as a client from another server.
    pub(super) newcomer: Newcomer,
}

impl ClientIdentity {
    /// How the client is recognised.
    pub(super) fn known_by(&self) -> KnownBy {
        KnownBy {
            verifier: self.verifier,
            network: network_of(self.address),
            user: self.principal.user(),
        }
    }
}

impl Principal {
    fn user(self) -> Option<u32> {
        match self {
            Principal::Nobody => None,
            Principal::User(user) => Some(user),
        }
    }
}

impl Client {
    /// Its record across restarts.
    pub(super) fn record(&self) -> ClientRecord {
        ClientRecord {
            owner: self.owner.clone(),
            known_by: Some(KnownBy {
                verifier: self.verifier,
                network: self.network,
                user: self.principal.user(),
            }),
        }
    }

    /// A request of the client has come, which renews its lease. The end of a request, which may be late, renews it only.
    pub(super) fn hear(&mut self, now: Instant) {
        (self.renewed, self.heard) = (now, now);
    }

    pub(super) fn is_expired(&self, now: Instant, lease: Duration) -> bool {
        let lease = match self.confirmed {
            true => lease,
            false => lease.min(UNCONFIRMED_LIFE),
        };
        now.saturating_duration_since(self.renewed) > lease
    }

    /// Whether this is a valid number for a new CREATE_SESSION.
    pub(super) fn expects_create(&self, sequence: u32) -> bool {
        sequence == self.next_create
            || (self.create_refused && sequence == self.next_create.wrapping_add(1))
    }

    /// A host in another network, which does not know the verifier, uses the name. `DELAY` while it may be the client
    /// itself, restarted with another address; then it is enough to wait until the old lease has expired. `CLID_INUSE`
    /// once the client has sent a request in the meantime, so that there are two.
    fn contest(&mut self, now: Instant) -> NfsStat4 {
        let going_on = self
            .contested
            .filter(|(_, last)| now.saturating_duration_since(*last) <= CONTEST_PAUSE);
        let (since, _) = going_on.unwrap_or((now, now));
        let there_are_two = self.heard > since;
        self.contested = (!there_are_two).then_some((since, now));
        match there_are_two {
            true => NfsStat4::ClidInUse,
            false => NfsStat4::Delay,
        }
    }

    fn is_in_use(&self) -> bool {
        !self.sessions.is_empty()
            || !self.opens.is_empty()
            || !self.locks.is_empty()
            || !self.layouts.is_empty()
    }
}

/// A client that is told to try again does so within this time; Linux takes a second.
const CONTEST_PAUSE: Duration = Duration::from_secs(15);

/// A client confirms its record at once. A record that stays unconfirmed this long was abandoned.
const UNCONFIRMED_LIFE: Duration = Duration::from_secs(15);
/// The maximum number of unconfirmed records of one network, and of all. Clients of one address may all come at once.
const UNCONFIRMED_OF_NETWORK: usize = 256;
const UNCONFIRMED_MAX: usize = 4096;

/// Unconfirmed records, the oldest first, and their networks. Anyone can create some, so they only displace each other.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed {
    all: BTreeMap<u64, (ClientId, IpAddr)>,
    networks: HashMap<IpAddr, usize>,
}

impl Unconfirmed {
    fn add(&mut self, arrival: u64, id: ClientId, network: IpAddr) {
        self.all.insert(arrival, (id, network));
        *self.networks.entry(network).or_default() += 1;
    }

    pub(super) fn remove(&mut self, arrival: u64) {
        if let Some((_, network)) = self.all.remove(&arrival)
            && let Some(count) = self.networks.get_mut(&network)
        {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&network);
            }
        }
    }

    fn len(&self) -> usize {
        self.all.len()
    }

    /// The record to remove for one more of this network, if there is no space: the oldest of the network, or of the
    /// network with the most of them.
    fn in_the_way(&self, network: IpAddr) -> Option<ClientId> {
        let own = self.networks.get(&network).copied().unwrap_or(0);
        let of = match own >= UNCONFIRMED_OF_NETWORK {
            true => network,
            false if self.len() < UNCONFIRMED_MAX => return None,
            false => *self.networks.iter().max_by_key(|(_, count)| **count)?.0,
        };
        let mut all = self.all.values();
        all.find(|(_, network)| *network == of).map(|(id, _)| *id)
    }
}

/// The network of an address: the address itself, or the 64 network bits of an IPv6 address, because an IPv6 host can
/// have any number of addresses and changes them by itself.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address => address,
    }
}

/// The records of one client owner, at most two (RFC 8881, section 18.35.4).
#[derive(Debug, Default)]
pub(super) struct OwnerRecords {
    pub(super) confirmed: Option<ClientId>,
    pub(super) unconfirmed: Option<ClientId>,
}

impl OwnerRecords {
    pub(super) fn forget(&mut self, id: ClientId) {
        for slot in [&mut self.confirmed, &mut self.unconfirmed] {
            if *slot == Some(id) {
                *slot = None;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.confirmed.is_none() && self.unconfirmed.is_none()
    }
}

impl State {
    /// Registers a client, or finds it again (RFC 8881, section 18.35.4, cases 1 to 9).
    ///
    /// # Errors
    /// `NOENT`, `NOT_SAME`, `PERM` for invalid updates. `CLID_INUSE` when another principal, or a host in another
    /// network, uses the owner string. `DELAY` while its old state is being released, while a host in another network
    /// may be the restarted client, and while the client is expected back after a restart of the server.
    pub fn exchange_id(
        &mut self,
        request: ExchangeRequest,
        now: Instant,
    ) -> Result<(Exchanged, Option<Departure>), NfsStat4> {
        let identity = &request.identity;
        if self.departures.is_departing(&identity.owner) {
            return Err(NfsStat4::Delay);
        }
        let confirmed = self
            .owners
            .get(&identity.owner)
            .and_then(|records| records.confirmed);
        if confirmed.is_none() && self.grace.expects_another(identity) {
            return Err(NfsStat4::Delay);
        }
        // While it waits for the server its lease stays valid.
        let is_waiting = confirmed
            .and_then(|id| self.clients.get(&id))
            .is_some_and(|client| self.has_request_under_way(client));
        let Some(existing) = confirmed.and_then(|id| self.clients.get_mut(&id)) else {
            if request.update {
                return Err(NfsStat4::NoEnt);
            }
            return Ok((self.introduce(request, now), None));
        };

        let same_principal = existing.principal == identity.principal;
        let same_incarnation = existing.verifier == identity.verifier;
        let is_expired = !is_waiting && existing.is_expired(now, self.limits.lease);
        let in_use = existing.is_in_use() && !is_expired;
        if request.update {
            return match (same_incarnation, same_principal) {
                (false, _) => Err(NfsStat4::NotSame),
                (true, false) => Err(NfsStat4::Perm),
                (true, true) => {
                    existing.implementation = request.implementation;
                    existing.hear(now);
                    Ok((existing.exchanged(), None))
                }
            };
        }
        if !same_principal {
            if in_use {
                return Err(NfsStat4::ClidInUse);
            }
            let old = existing.id;
            let departure = self.remove_client(old);
            return Ok((self.introduce(request, now), departure));
        }
        if same_incarnation {
            existing.hear(now);
            return Ok((existing.exchanged(), None));
        }
        // AUTH_SYS proves nothing, and every client's name belongs to its superuser. A host in another network that
        // does not know the verifier must wait until the client has gone.
        if in_use && existing.network != network_of(identity.address) {
            return Err(existing.contest(now));
        }
        // The client restarted. Its old record stays until CREATE_SESSION confirms the new one.
        Ok((self.introduce(request, now), None))
    }

    /// Removes a client record without state (RFC 8881, section 18.50), or with state that the client now has
    /// elsewhere, if it `has_moved`.
    ///
    /// # Errors
    /// `STALE_CLIENTID` when there is no such record, `CLIENTID_BUSY` when it has state.
    pub fn destroy_client(
        &mut self,
        id: ClientId,
        has_moved: bool,
    ) -> Result<Option<Departure>, NfsStat4> {
        let client = self.clients.get(&id).ok_or(NfsStat4::StaleClientid)?;
        if !client.sessions.is_empty() || (client.is_in_use() && !has_moved) {
            return Err(NfsStat4::ClientidBusy);
        }
        Ok(self.remove_client(id))
    }

    /// Removes a confirmed client with all its state. Returns whether there was one.
    pub fn evict(&mut self, id: ClientId) -> (bool, Option<Departure>) {
        let found = self.confirmed(id).is_ok();
        // Whatever other servers have of it: that is what an administrator evicts it for.
        let client = found.then(|| self.take_out(id)).flatten();
        let departure = client.and_then(|client| self.depart(client, Stays::Nothing));
        (found, departure)
    }

    /// Whether a client may create a session.
    ///
    /// # Errors
    /// `DELAY` while its old state is being released, and for a new client when there are too many.
    pub(super) fn may_come(&self, id: ClientId) -> Result<(), NfsStat4> {
        let Some(client) = self.clients.get(&id) else {
            return Ok(());
        };
        let too_many = self.is_new(client) && self.is_full();
        match too_many || self.departures.is_departing(&client.owner) {
            true => Err(NfsStat4::Delay),
            false => Ok(()),
        }
    }

    /// Whether no incarnation of the client is confirmed.
    fn is_new(&self, client: &Client) -> bool {
        let records = self.owners.get(&client.owner);
        records.is_some_and(|records| records.confirmed.is_none())
    }

    /// Whether there is no place for a client that wants to create a session.
    pub(super) fn lacks_place(&self, id: ClientId) -> bool {
        let client = self.clients.get(&id);
        client.is_some_and(|client| self.is_new(client) && self.is_full())
    }

    /// Whether the maximum number of clients is reached.
    fn is_full(&self) -> bool {
        self.clients.len() - self.unconfirmed.len() >= self.limits.clients
    }

    /// The client's name for file systems.
    pub(crate) fn client_name(&self, id: ClientId) -> Option<Arc<[u8]>> {
        self.clients.get(&id).map(|client| client.name.clone())
    }

    /// The confirmed client with this name for file systems.
    #[must_use]
    pub fn client_named(&self, name: &[u8]) -> Option<ClientId> {
        let (verifier, owner) = Client::verifier_and_owner(name)?;
        let id = self.owners.get(owner)?.confirmed?;
        let client = self.clients.get(&id)?;
        (client.verifier == verifier).then_some(id)
    }

    /// Creates a new unconfirmed record, replacing an earlier unconfirmed one of the same owner.
    fn introduce(&mut self, request: ExchangeRequest, now: Instant) -> Exchanged {
        let ExchangeRequest {
            identity,
            implementation,
            minor_version,
            ..
        } = request;
        let unconfirmed = self
            .owners
            .get(&identity.owner)
            .and_then(|owner| owner.unconfirmed);
        let network = network_of(identity.address);
        // An unconfirmed record has no state.
        if let Some(unconfirmed) = unconfirmed {
            let _nothing = self.remove_client(unconfirmed);
        }
        if let Some(unconfirmed) = self.unconfirmed.in_the_way(network) {
            let _nothing = self.remove_client(unconfirmed);
        }
        let (mut arrival, mut id) = self.numbers.next_client();
        while self.clients.contains_key(&id) {
            (arrival, id) = self.numbers.next_client();
        }
        let client = Client {
            id,
            arrival,
            owner: identity.owner.clone(),
            verifier: identity.verifier,
            name: [&identity.verifier[..], &identity.owner].concat().into(),
            principal: identity.principal,
            address: identity.address.to_canonical(),
            network,
            confirmed: false,
            implementation,
            minor_version,
            since: now,
            next_create: 1,
            last_create: None,
            create_refused: false,
            renewed: now,
            heard: now,
            contested: None,
            sessions: Vec::new(),
            opens: HashSet::new(),
            locks: HashSet::new(),
            layouts: HashSet::new(),
            kept: Kept::default(),
            devices: Devices::new(),
            reclaim_complete: false,
            recorded: false,
            may_reclaim: false,
            newcomer: Newcomer::default(),
        };
        let exchanged = client.exchanged();
        self.clients.insert(id, client);
        self.unconfirmed.add(arrival, id, network);
        self.owners.entry(identity.owner).or_default().unconfirmed = Some(id);
        exchanged
    }

    /// Confirms a record and removes an older incarnation of the same client with all its state.
    pub(super) fn confirm(&mut self, id: ClientId, now: Instant) -> Option<Departure> {
        self.welcome(id, now);
        let client = self.clients.get_mut(&id)?;
        if client.confirmed {
            return None;
        }
        client.confirmed = true;
        self.unconfirmed.remove(client.arrival);
        client.may_reclaim = self.grace.may_reclaim(&client.owner);
        let owner = client.owner.clone();
        let records = self.owners.entry(owner).or_default();
        records.unconfirmed = None;
        let old = records.confirmed.replace(id)?;
        // The client restarted, and does not know its earlier requests.
        let sessions = self.clients.get(&old).map(|old| old.sessions.clone());
        let sessions = sessions.into_iter().flatten();
        sessions.for_each(|session| self.note_ended(session));
        let old = self.take_out(old)?;
        self.depart(old, Stays::Nothing)
    }
}

impl Client {
    /// The parts of a name.
    pub(super) fn verifier_and_owner(name: &[u8]) -> Option<([u8; 8], &[u8])> {
        let (verifier, owner) = name.split_first_chunk()?;
        Some((*verifier, owner))
    }

    fn exchanged(&self) -> Exchanged {
        Exchanged {
            client: self.id,
            sequence: self.next_create,
            confirmed: self.confirmed,
        }
    }
}
