//! Client records: who a client is, and which incarnation of it (RFC 8881, section 2.4).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs4::{NfsStat4, SessionId4};

use super::newcomers::Newcomer;
use super::session::CreatedSession;
use super::{Release, State};

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
    pub(super) owner: Arc<[u8]>,
    verifier: [u8; 8],
    /// How file systems know it: verifier and owner, the same at every server, and another after each restart
    /// of the client.
    pub(super) name: Arc<[u8]>,
    pub(super) principal: Principal,
    pub(super) confirmed: bool,
    pub(super) implementation: String,
    /// The sequence number that the next new CREATE_SESSION carries.
    pub(super) next_create: u32,
    pub(super) last_create: Option<CreatedSession>,
    /// Whether a CREATE_SESSION with that number was refused.
    pub(super) create_refused: bool,
    pub(super) renewed: Instant,
    pub(super) sessions: Vec<SessionId4>,
    pub(super) opens: HashSet<u64>,
    pub(super) locks: HashSet<u64>,
    /// Whether the client said that it reclaimed all it wanted.
    pub(super) reclaim_complete: bool,
    /// Whether the client held state before the server restarted.
    pub(super) may_reclaim: bool,
    /// What it may do as one that comes from another server.
    pub(super) newcomer: Newcomer,
}

impl Client {
    pub(super) fn is_expired(&self, now: Instant, lease: Duration) -> bool {
        now.saturating_duration_since(self.renewed) > lease
    }

    /// Whether a new CREATE_SESSION may carry this number.
    pub(super) fn expects_create(&self, sequence: u32) -> bool {
        sequence == self.next_create
            || (self.create_refused && sequence == self.next_create.wrapping_add(1))
    }

    fn is_in_use(&self) -> bool {
        !self.sessions.is_empty() || !self.opens.is_empty() || !self.locks.is_empty()
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
    /// `NOENT`, `NOT_SAME`, `PERM` for updates that do not fit, `CLID_INUSE` when another principal
    /// uses the owner string, `DELAY` when the table of clients is full.
    pub fn exchange_id(
        &mut self,
        request: ExchangeRequest,
        now: Instant,
    ) -> Result<(Exchanged, Vec<Release>), NfsStat4> {
        let identity = &request.identity;
        let confirmed = self
            .owners
            .get(&identity.owner)
            .and_then(|records| records.confirmed);
        let Some(existing) = confirmed.and_then(|id| self.clients.get_mut(&id)) else {
            if request.update {
                return Err(NfsStat4::NoEnt);
            }
            return self.introduce(request, now).map(|new| (new, Vec::new()));
        };

        let same_principal = existing.principal == identity.principal;
        let same_incarnation = existing.verifier == identity.verifier;
        if request.update {
            return match (same_incarnation, same_principal) {
                (false, _) => Err(NfsStat4::NotSame),
                (true, false) => Err(NfsStat4::Perm),
                (true, true) => {
                    existing.implementation = request.implementation;
                    existing.renewed = now;
                    Ok((existing.exchanged(), Vec::new()))
                }
            };
        }
        if !same_principal {
            let lease_holds = !existing.is_expired(now, self.limits.lease);
            if existing.is_in_use() && lease_holds {
                return Err(NfsStat4::ClidInUse);
            }
            let old = existing.id;
            let releases = self.remove_client(old);
            return self.introduce(request, now).map(|new| (new, releases));
        }
        if same_incarnation {
            existing.renewed = now;
            return Ok((existing.exchanged(), Vec::new()));
        }
        // The client restarted. Its old record stays until CREATE_SESSION confirms the new one.
        self.introduce(request, now).map(|new| (new, Vec::new()))
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
    ) -> Result<Vec<Release>, NfsStat4> {
        let client = self.clients.get(&id).ok_or(NfsStat4::StaleClientid)?;
        if !client.sessions.is_empty() || (client.is_in_use() && !has_moved) {
            return Err(NfsStat4::ClientidBusy);
        }
        Ok(self.remove_client(id))
    }

    /// How file systems know a client.
    pub(super) fn client_name(&self, id: ClientId) -> Option<Arc<[u8]>> {
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
    fn introduce(&mut self, request: ExchangeRequest, now: Instant) -> Result<Exchanged, NfsStat4> {
        let ExchangeRequest {
            identity,
            implementation,
            ..
        } = request;
        let unconfirmed = self
            .owners
            .get(&identity.owner)
            .and_then(|owner| owner.unconfirmed);
        if let Some(unconfirmed) = unconfirmed {
            self.remove_client(unconfirmed);
        }
        if self.clients.len() >= self.limits.clients {
            return Err(NfsStat4::Delay);
        }
        let id = ClientId((u64::from(self.incarnation) << 32) | u64::from(self.next_client));
        self.next_client = self.next_client.wrapping_add(1);
        let client = Client {
            id,
            owner: identity.owner.clone(),
            verifier: identity.verifier,
            name: [&identity.verifier[..], &identity.owner].concat().into(),
            principal: identity.principal,
            confirmed: false,
            implementation,
            next_create: 1,
            last_create: None,
            create_refused: false,
            renewed: now,
            sessions: Vec::new(),
            opens: HashSet::new(),
            locks: HashSet::new(),
            reclaim_complete: false,
            may_reclaim: false,
            newcomer: Newcomer::default(),
        };
        let exchanged = client.exchanged();
        self.clients.insert(id, client);
        self.owners.entry(identity.owner).or_default().unconfirmed = Some(id);
        Ok(exchanged)
    }

    /// Confirms a record; an older incarnation of the same client goes with all it had.
    pub(super) fn confirm(&mut self, id: ClientId, now: Instant) -> Vec<Release> {
        self.welcome(id, now);
        let Some(client) = self.clients.get_mut(&id) else {
            return Vec::new();
        };
        if client.confirmed {
            return Vec::new();
        }
        client.confirmed = true;
        client.may_reclaim = self.grace.may_reclaim(&client.owner);
        let owner = client.owner.clone();
        let records = self.owners.entry(owner).or_default();
        records.unconfirmed = None;
        match records.confirmed.replace(id) {
            Some(old) => self.remove_client(old),
            None => Vec::new(),
        }
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
