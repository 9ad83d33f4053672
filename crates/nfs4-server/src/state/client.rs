//! Client records: who a client is, and which incarnation of it (RFC 8881, section 2.4).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs4::{NfsStat4, SessionId4};

use super::layout::Devices;
use super::newcomers::Newcomer;
use super::session::CreatedSession;
use super::space::Kept;
use super::{Departure, State};
use crate::records::{ClientRecord, KnownBy};

/// The shorthand for a client that the server hands out in EXCHANGE_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// Who sent a request, as far as the security flavor tells; decides who may change a client record.
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
    /// The client's own name for itself, which survives its restarts (`co_ownerid`).
    pub owner: Arc<[u8]>,
    /// Changes with every restart of the client (`co_verifier`).
    pub verifier: [u8; 8],
    /// Under whose credentials it speaks.
    pub principal: Principal,
    /// From where it speaks.
    pub address: IpAddr,
}

/// An EXCHANGE_ID request, reduced to what decides it.
#[derive(Clone, Debug)]
pub struct ExchangeRequest {
    /// Who asks.
    pub identity: ClientIdentity,
    /// Whether an existing confirmed record is to be updated.
    pub update: bool,
    /// The implementation's name, for status displays.
    pub implementation: String,
    /// The minor version of NFSv4 in which it asks, for the same.
    pub minor_version: u32,
}

/// The answer to EXCHANGE_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// The record's name.
    pub client: ClientId,
    /// Sequence number that the next CREATE_SESSION must carry.
    pub sequence: u32,
    /// Whether the record had been confirmed already.
    pub confirmed: bool,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: ClientId,
    /// Grows from each record to the next.
    pub(super) arrival: u64,
    pub(super) owner: Arc<[u8]>,
    verifier: [u8; 8],
    /// How file systems know it: verifier and owner, the same at every server, and another after each restart
    /// of the client.
    pub(super) name: Arc<[u8]>,
    pub(super) principal: Principal,
    /// From where it introduced itself, and the network that this is in.
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
    /// Since when somebody elsewhere has been asking for its name, and when they did last.
    contested: Option<(Instant, Instant)>,
    pub(super) sessions: Vec<SessionId4>,
    pub(super) opens: HashSet<u64>,
    pub(super) locks: HashSet<u64>,
    pub(super) layouts: HashSet<u64>,
    pub(super) kept: Kept,
    /// About what it wants to hear.
    pub(super) devices: Devices,
    /// Whether the client said that it reclaimed all it wanted.
    pub(super) reclaim_complete: bool,
    /// Whether the client held state before the server restarted.
    pub(super) may_reclaim: bool,
    /// What it may do as one that comes from another server.
    pub(super) newcomer: Newcomer,
}

impl ClientIdentity {
    /// By what the client is known again.
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
    /// What is kept of it across restarts.
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

    pub(super) fn is_expired(&self, now: Instant, lease: Duration) -> bool {
        let lease = match self.confirmed {
            true => lease,
            false => lease.min(UNCONFIRMED_LIFE),
        };
        now.saturating_duration_since(self.renewed) > lease
    }

    /// Whether a new CREATE_SESSION may carry this number.
    pub(super) fn expects_create(&self, sequence: u32) -> bool {
        sequence == self.next_create
            || (self.create_refused && sequence == self.next_create.wrapping_add(1))
    }

    /// Somebody elsewhere, who does not know the verifier, asks for the name. `DELAY` while this may be the client itself, restarted
    /// with another address, for whom it is enough to wait until its lease is over; `CLID_INUSE` once the client has shown itself
    /// meanwhile, so that there are two.
    fn contest(&mut self, now: Instant) -> NfsStat4 {
        let going_on = self
            .contested
            .filter(|(_, last)| now.saturating_duration_since(*last) <= CONTEST_PAUSE);
        let (since, _) = going_on.unwrap_or((now, now));
        let there_are_two = self.renewed > since;
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

/// A client that is told to come again does so within this time; Linux takes a second.
const CONTEST_PAUSE: Duration = Duration::from_secs(15);

/// A client confirms its record at once, so one that does not has given up.
const UNCONFIRMED_LIFE: Duration = Duration::from_secs(15);
/// Unconfirmed records of one network at most, and of all together. Clients of one address may all come at once.
const UNCONFIRMED_OF_NETWORK: usize = 256;
const UNCONFIRMED_MAX: usize = 4096;

/// Unconfirmed records, from the oldest on, and where they come from. Anybody can make some, so they push out each other and
/// nobody else.
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

    /// The record that has to go for one more of this network, if there is no space: the oldest of the network, or else of
    /// that with most of them.
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

/// The network of an address: itself, or the 64 bits of an IPv6 address that name a network, as a host there has as many
/// addresses as it likes and changes them by itself.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address => address,
    }
}

/// The at most two records of one client owner (RFC 8881, section 18.35.4).
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
    /// Introduces a client, or finds it again (RFC 8881, section 18.35.4, cases 1 to 9).
    ///
    /// # Errors
    /// `NOENT`, `NOT_SAME`, `PERM` for updates that do not fit, `CLID_INUSE` when another principal, or somebody at
    /// another address, uses the owner string, `DELAY` while what it held before is being let go, while somebody at another address may
    /// be the client, restarted, and while the client is expected back after a restart of the server.
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
        // While it waits for the server its lease goes on.
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
                    existing.renewed = now;
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
            existing.renewed = now;
            return Ok((existing.exchanged(), None));
        }
        // AUTH_SYS proves nothing, and every client's own name is the superuser's. A host that is elsewhere and does not
        // know the verifier waits until the client has gone.
        if in_use && existing.network != network_of(identity.address) {
            return Err(existing.contest(now));
        }
        // The client restarted. Its old record stays until CREATE_SESSION confirms the new one.
        Ok((self.introduce(request, now), None))
    }

    /// Removes a client record that has no state left (RFC 8881, section 18.50), or only what the client holds
    /// elsewhere by now, if it `has_moved`.
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

    /// Removes a confirmed client with all that it has. Returns whether there was one.
    pub fn evict(&mut self, id: ClientId) -> (bool, Option<Departure>) {
        let found = self.confirmed(id).is_ok();
        (found, found.then(|| self.remove_client(id)).flatten())
    }

    /// Whether a client may make a session.
    ///
    /// # Errors
    /// `DELAY` while what it held before is being let go, and for a new client when there are too many.
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

    /// Whether no incarnation of a client is confirmed.
    fn is_new(&self, client: &Client) -> bool {
        let records = self.owners.get(&client.owner);
        records.is_some_and(|records| records.confirmed.is_none())
    }

    /// Whether there is no place for a client that wants to make a session.
    pub(super) fn lacks_place(&self, id: ClientId) -> bool {
        let client = self.clients.get(&id);
        client.is_some_and(|client| self.is_new(client) && self.is_full())
    }

    /// Whether there are as many clients as there may be.
    fn is_full(&self) -> bool {
        self.clients.len() - self.unconfirmed.len() >= self.limits.clients
    }

    /// How file systems know a client.
    pub(crate) fn client_name(&self, id: ClientId) -> Option<Arc<[u8]>> {
        self.clients.get(&id).map(|client| client.name.clone())
    }

    /// The confirmed client that file systems know by this name.
    #[must_use]
    pub fn client_named(&self, name: &[u8]) -> Option<ClientId> {
        let (verifier, owner) = Client::verifier_and_owner(name)?;
        let id = self.owners.get(owner)?.confirmed?;
        let client = self.clients.get(&id)?;
        (client.verifier == verifier).then_some(id)
    }

    /// Makes a new unconfirmed record in place of an earlier unconfirmed one of the same owner.
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
        // What was never confirmed holds nothing.
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
            contested: None,
            sessions: Vec::new(),
            opens: HashSet::new(),
            locks: HashSet::new(),
            layouts: HashSet::new(),
            kept: Kept::default(),
            devices: Devices::new(),
            reclaim_complete: false,
            may_reclaim: false,
            newcomer: Newcomer::default(),
        };
        let exchanged = client.exchanged();
        self.clients.insert(id, client);
        self.unconfirmed.add(arrival, id, network);
        self.owners.entry(identity.owner).or_default().unconfirmed = Some(id);
        exchanged
    }

    /// Confirms a record; an older incarnation of the same client goes with all it had.
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
        // It was started anew, and knows nothing of the requests of its earlier self.
        let sessions = self.clients.get(&old).map(|old| old.sessions.clone());
        let sessions = sessions.into_iter().flatten();
        sessions.for_each(|session| self.note_ended(session));
        self.remove_client(old)
    }
}

impl Client {
    /// What a name consists of.
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
