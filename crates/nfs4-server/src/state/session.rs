//! Sessions and their reply caches: exactly-once execution (RFC 8881, section 2.10.6).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use nfs4::{NfsStat4, SessionId4};
use xdr::Rope;

use super::back_channel::{BackChannel, BackChannelHealth, BackPath};
use super::client::{Client, ClientId, Principal};
use super::departure::Executing;
use super::{Departure, Limits, State};

/// The maximum number of ended sessions that are recorded between two calls of [`State::take_ended_sessions`].
const ENDED_SESSIONS_MAX: usize = 16 * 1024;

/// One transport connection. The part of the server that accepts connections numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The agreed sizes of one direction of a session (RFC 8881, section 18.36.3, `channel_attrs4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionChannel {
    /// Largest request in bytes.
    pub request_bytes: u32,
    /// Largest reply in bytes.
    pub response_bytes: u32,
    /// The largest cached reply, in bytes.
    pub cached_response_bytes: u32,
    /// Operations in one COMPOUND.
    pub operations: u32,
    /// Slots.
    pub slots: u32,
}

impl SessionChannel {
    /// The space for a SEQUENCE and one small operation; less is unusable.
    const SMALLEST_MESSAGE_BYTES: u32 = 256;

    /// The maximum size of a reply, RPC header included.
    #[must_use]
    pub fn reply_bytes(&self, kept: bool) -> u32 {
        if kept {
            self.response_bytes.min(self.cached_response_bytes)
        } else {
            self.response_bytes
        }
    }

    /// The status for a reply that is larger (RFC 8881, section 2.10.6.4).
    #[must_use]
    pub fn too_big(&self, kept: bool) -> NfsStat4 {
        if kept && self.cached_response_bytes < self.response_bytes {
            NfsStat4::RepTooBigToCache
        } else {
            NfsStat4::RepTooBig
        }
    }

    /// Whether no request could ever be sent or answered.
    fn is_too_small(&self, operations_min: u32) -> bool {
        self.request_bytes < Self::SMALLEST_MESSAGE_BYTES
            || self.response_bytes < Self::SMALLEST_MESSAGE_BYTES
            || self.operations < operations_min
            || self.slots == 0
    }

    /// Whether all values are zero, as from clients that accept no calls.
    fn is_absent(&self) -> bool {
        self.request_bytes == 0 && self.response_bytes == 0 && self.operations == 0
    }

    /// The channel that a server with these limits grants.
    fn cut_to(&self, limits: &Limits) -> SessionChannel {
        SessionChannel {
            request_bytes: self.request_bytes.min(limits.request_bytes),
            response_bytes: self.response_bytes.min(limits.response_bytes),
            cached_response_bytes: self.cached_response_bytes.min(limits.cached_response_bytes),
            operations: self.operations.min(limits.operations),
            slots: self.slots.min(limits.slots),
        }
    }
}

/// The parts of a CREATE_SESSION request that decide about it.
#[derive(Clone, Debug)]
pub struct CreateSession {
    /// The record from EXCHANGE_ID.
    pub client: ClientId,
    /// Sequence number of the request (`csa_sequence`).
    pub sequence: u32,
    /// The principal of its credentials.
    pub principal: Principal,
    /// The connection of the request, the first one of the session.
    pub connection: ConnectionId,
    /// Sizes the client asks for.
    pub channel: SessionChannel,
    /// How to call back, and whether over this connection.
    pub back: BackChannel,
    /// Whether the connection also serves as back channel.
    pub use_for_back_channel: bool,
}

/// The answer to CREATE_SESSION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedSession {
    /// The new session.
    pub session: SessionId4,
    /// The request's sequence number.
    pub sequence: u32,
    /// Sizes granted.
    pub channel: SessionChannel,
    /// Sizes of the back channel.
    pub back: SessionChannel,
    /// Whether the connection serves as back channel.
    pub back_channel_bound: bool,
}

/// A SEQUENCE request, with the properties of the whole COMPOUND.
#[derive(Clone, Copy, Debug)]
pub struct SequenceRequest {
    /// Session named.
    pub session: SessionId4,
    /// Sequence number on the slot.
    pub sequence: u32,
    /// Slot used.
    pub slot: u32,
    /// Highest slot the client still uses.
    pub highest_slot: u32,
    /// Whether to cache the reply.
    pub cache: bool,
    /// Size of the request in bytes.
    pub request_bytes: usize,
    /// The size in bytes of the smallest possible reply, RPC header included.
    pub smallest_reply_bytes: usize,
    /// Number of operations in the COMPOUND.
    pub operations: u32,
    /// The principal of its credentials.
    pub principal: Principal,
    /// The connection it came over.
    pub connection: ConnectionId,
}

/// How to continue a COMPOUND that starts with SEQUENCE.
#[derive(Clone, Debug)]
pub enum Sequenced {
    /// It is new: execute it, then call [`State::finish_sequence`].
    Execute {
        /// The owner of the session.
        client: ClientId,
        /// Sizes of the session.
        channel: SessionChannel,
        /// Where the reply goes.
        slot: ReplySlot,
        /// The request's number on the slot: the sequence number, with the number of wraps above it.
        number: u64,
        /// Which back channels of the client are broken.
        back: BackChannelHealth,
        /// Whether the client has to reclaim its state from another server.
        reclaim_needed: bool,
    },
    /// It was executed before: send this again.
    Replay(Rope),
}

/// The place of a running request in a reply cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplySlot {
    /// The session.
    pub session: SessionId4,
    /// The slot's index.
    pub slot: u32,
}

#[derive(Debug)]
enum Progress {
    /// Nothing was ever executed on the slot.
    Fresh,
    /// A request is being executed.
    UnderWay,
    /// The last request's reply, if it was cached.
    Done(Option<Rope>),
}

#[derive(Debug)]
struct Slot {
    sequence: u32,
    /// How often the sequence numbers have wrapped to zero.
    rounds: u32,
    progress: Progress,
    operations: u32,
    principal: Principal,
}

#[derive(Debug)]
pub(super) struct Session {
    id: SessionId4,
    pub(super) client: ClientId,
    channel: SessionChannel,
    slots: Vec<Slot>,
    /// The memory reserved for its cached replies, in bytes.
    reserved: u64,
    /// The connections associated with it (RFC 8881, section 2.10.3.1).
    pub(super) connections: BTreeSet<ConnectionId>,
    pub(super) back: BackPath,
}

/// The sessions of each connection, so that a closed connection is not searched in all sessions: anyone can open connections.
pub(super) type Associations = HashMap<ConnectionId, HashSet<SessionId4>>;

impl Session {
    /// Associates a connection with it (RFC 8881, section 2.10.3.1).
    pub(super) fn associate(&mut self, connection: ConnectionId, associations: &mut Associations) {
        if self.connections.insert(connection) {
            let sessions = associations.entry(connection).or_default();
            sessions.insert(self.id);
        }
    }

    fn is_busy(&self) -> bool {
        self.executing() > 0
    }

    /// The number of running requests.
    fn executing(&self) -> usize {
        let slots = self.slots.iter();
        let under_way = slots.filter(|slot| matches!(slot.progress, Progress::UnderWay));
        under_way.count()
    }
}

impl State {
    /// Creates a session and confirms the client record (RFC 8881, section 18.36.4).
    ///
    /// A refused request changes nothing. Clients disagree on whether it has used up its sequence number, so afterwards
    /// both that number and the next one are valid for a new request.
    ///
    /// # Errors
    /// `STALE_CLIENTID` for an unknown record, `SEQ_MISORDERED` for a sequence number that is neither the next nor the
    /// last, `CLID_INUSE` when another principal registered the client, `TOOSMALL` when the client's sizes leave no
    /// space, `NOSPC` when it has too many sessions, `DELAY` when there are too many clients or cached replies, or when
    /// the state of an earlier incarnation of the client is still being released.
    pub fn create_session(
        &mut self,
        request: &CreateSession,
        now: Instant,
    ) -> Result<(CreatedSession, Option<Departure>), NfsStat4> {
        self.may_come(request.client)?;
        let present = self.present().count();
        let to_come = self.limits.clients.saturating_sub(present);
        let client = self
            .clients
            .get_mut(&request.client)
            .ok_or(NfsStat4::StaleClientid)?;
        if request.sequence.wrapping_add(1) == client.next_create
            && let Some(last) = &client.last_create
        {
            return Ok((last.clone(), None));
        }
        if !client.expects_create(request.sequence) {
            return Err(NfsStat4::SeqMisordered);
        }
        if !client.confirmed && client.principal != request.principal {
            return Err(NfsStat4::ClidInUse);
        }
        if let Err(refusal) = check_sizes(request, client.sessions.len(), &self.limits) {
            client.create_refused = true;
            return Err(refusal);
        }
        let mut channel = request.channel.cut_to(&self.limits);
        let further = !client.sessions.is_empty();
        let others = further.then_some(to_come);
        let reserved = self.memory.reserve(&mut channel, others, &self.limits);
        let Ok(reserved) = reserved else {
            client.create_refused = true;
            return Err(NfsStat4::Delay);
        };
        client.next_create = request.sequence.wrapping_add(1);
        client.create_refused = false;
        client.hear(now);
        let id = self.numbers.next_session();
        let mut created = make_session(request, id, channel, reserved);
        let session = &mut created.session;
        session.associate(request.connection, &mut self.associations);
        client.sessions.push(created.answer.session);
        client.last_create = Some(created.answer.clone());
        self.sessions
            .insert(created.answer.session, created.session);
        let departure = self.confirm(request.client, now);
        Ok((created.answer, departure))
    }

    /// Takes a SEQUENCE (RFC 8881, section 18.46.3) and renews the client's lease.
    ///
    /// # Errors
    /// `BADSESSION`, `BADSLOT`, `BAD_HIGH_SLOT`, `SEQ_MISORDERED`, `SEQ_FALSE_RETRY`,
    /// `RETRY_UNCACHED_REP`, `TOO_MANY_OPS`, `REQ_TOO_BIG`, `REP_TOO_BIG`, `REP_TOO_BIG_TO_CACHE`; `DELAY`
    /// for a repeat of a request that is still being executed. None of them changes the slot.
    pub fn sequence(
        &mut self,
        request: &SequenceRequest,
        now: Instant,
    ) -> Result<Sequenced, NfsStat4> {
        let session = self
            .sessions
            .get_mut(&request.session)
            .ok_or(NfsStat4::BadSession)?;
        let highest = session.channel.slots - 1;
        if request.slot > highest {
            return Err(NfsStat4::BadSlot);
        }
        if request.highest_slot > highest {
            return Err(NfsStat4::BadHighSlot);
        }
        let slot = &mut session.slots[request.slot as usize];
        let is_next = request.sequence == slot.sequence.wrapping_add(1);
        let is_repeat = request.sequence == slot.sequence;
        match &slot.progress {
            Progress::UnderWay if is_repeat => return Err(NfsStat4::Delay),
            Progress::Done(reply) if is_repeat => {
                if slot.operations != request.operations || slot.principal != request.principal {
                    return Err(NfsStat4::SeqFalseRetry);
                }
                let reply = reply.clone().ok_or(NfsStat4::RetryUncachedRep)?;
                session.associate(request.connection, &mut self.associations);
                hear(&mut self.clients, session.client, now);
                return Ok(Sequenced::Replay(reply));
            }
            Progress::Fresh | Progress::Done(_) if is_next => {}
            _ => return Err(NfsStat4::SeqMisordered),
        }
        if request.operations > session.channel.operations {
            return Err(NfsStat4::TooManyOps);
        }
        if request.request_bytes > session.channel.request_bytes as usize {
            return Err(NfsStat4::ReqTooBig);
        }
        if request.smallest_reply_bytes > session.channel.reply_bytes(request.cache) as usize {
            return Err(session.channel.too_big(request.cache));
        }
        if request.sequence < slot.sequence {
            slot.rounds = slot.rounds.wrapping_add(1);
        }
        slot.sequence = request.sequence;
        slot.operations = request.operations;
        slot.principal = request.principal;
        slot.progress = Progress::UnderWay;
        let number = (u64::from(slot.rounds) << 32) | u64::from(slot.sequence);
        // Without state protection, a client that uses a session over a connection associates it
        // (RFC 8881, section 2.10.3.1).
        session.associate(request.connection, &mut self.associations);
        let (client, channel) = (session.client, session.channel);
        hear(&mut self.clients, client, now);
        Ok(Sequenced::Execute {
            client,
            channel,
            slot: ReplySlot {
                session: request.session,
                slot: request.slot,
            },
            number,
            reclaim_needed: self.reclaim_needed(client),
            back: self
                .sessions
                .get(&request.session)
                .map(|session| self.back_channel_health(session))
                .unwrap_or_default(),
        })
    }

    /// Ends a request that [`State::sequence`] admitted. `reply` is cached if given. Returns whether its client has
    /// gone in the meantime, so that a task waits for its end.
    pub fn finish_sequence(&mut self, place: ReplySlot, reply: Option<Rope>, now: Instant) -> bool {
        // The session may have been destroyed in the meantime, even by the request itself.
        let Some(session) = self.sessions.get_mut(&place.session) else {
            return self.departures.request_ended(place.session);
        };
        session.slots[place.slot as usize].progress = Progress::Done(reply);
        if let Some(client) = self.clients.get_mut(&session.client) {
            client.renewed = now;
        }
        false
    }

    /// Takes back the start of a request: the client is to send it again with the same sequence number. Returns whether
    /// the client has gone in the meantime.
    pub fn put_off_sequence(&mut self, place: ReplySlot) -> bool {
        let Some(session) = self.sessions.get_mut(&place.session) else {
            return self.departures.request_ended(place.session);
        };
        let slot = &mut session.slots[place.slot as usize];
        if slot.sequence == 0 {
            slot.rounds = slot.rounds.wrapping_sub(1);
        }
        slot.sequence = slot.sequence.wrapping_sub(1);
        // The client has seen the previous reply.
        slot.progress = Progress::Done(None);
        false
    }

    /// Ends a session (RFC 8881, section 18.37). The client record stays.
    ///
    /// # Errors
    /// `BADSESSION` when it does not exist, `CONN_NOT_BOUND_TO_SESSION` when the connection was never used for it,
    /// `DELAY` when other requests are running on it.
    pub fn destroy_session(
        &mut self,
        id: SessionId4,
        connection: ConnectionId,
        own_slot: Option<ReplySlot>,
    ) -> Result<(), NfsStat4> {
        let session = self.sessions.get(&id).ok_or(NfsStat4::BadSession)?;
        if !session.connections.contains(&connection) {
            return Err(NfsStat4::ConnNotBoundToSession);
        }
        let busy = session.slots.iter().enumerate().any(|(index, slot)| {
            let own = own_slot
                == Some(ReplySlot {
                    session: id,
                    slot: index as u32,
                });
            !own && matches!(slot.progress, Progress::UnderWay)
        });
        if busy {
            return Err(NfsStat4::Delay);
        }
        if let Some(client) = self.clients.get_mut(&session.client) {
            client.sessions.retain(|other| *other != id);
        }
        self.remove_session(id);
        self.note_ended(id);
        Ok(())
    }

    /// Records that a session is never used again, by any client.
    pub(super) fn note_ended(&mut self, id: SessionId4) {
        // An unrecorded session is removed later because of its age.
        if self.ended_sessions.len() < ENDED_SESSIONS_MAX {
            self.ended_sessions.push(id);
        }
    }

    /// The sessions that have ended since the last call and are never used again.
    pub fn take_ended_sessions(&mut self) -> Vec<SessionId4> {
        std::mem::take(&mut self.ended_sessions)
    }

    /// All sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionId4> {
        self.sessions.keys().copied().collect()
    }

    pub(super) fn remove_session(&mut self, id: SessionId4) {
        let Some(session) = self.sessions.remove(&id) else {
            return;
        };
        self.memory.give_back(session.reserved);
        for connection in &session.connections {
            if let Some(sessions) = self.associations.get_mut(connection) {
                sessions.remove(&id);
                if sessions.is_empty() {
                    self.associations.remove(connection);
                }
            }
        }
    }

    /// The running requests of a client.
    pub(super) fn executing(&self, client: &Client) -> Executing {
        let sessions = client.sessions.iter();
        let all = sessions.filter_map(|id| Some((*id, self.sessions.get(id)?.executing())));
        all.filter(|(_, count)| *count > 0).collect()
    }

    pub(super) fn has_request_under_way(&self, client: &Client) -> bool {
        client
            .sessions
            .iter()
            .filter_map(|id| self.sessions.get(id))
            .any(Session::is_busy)
    }
}

/// Checks for reasons that make a session useless or impossible.
fn check_sizes(request: &CreateSession, sessions: usize, limits: &Limits) -> Result<(), NfsStat4> {
    // Every callback starts with CB_SEQUENCE, so one operation is not enough.
    let (fore, back) = (&request.channel, &request.back.channel);
    let takes_no_calls = back.is_absent() && !request.use_for_back_channel;
    if fore.is_too_small(1) || (!takes_no_calls && back.is_too_small(2)) {
        return Err(NfsStat4::TooSmall);
    }
    if sessions >= limits.sessions_per_client {
        return Err(NfsStat4::NoSpc);
    }
    Ok(())
}

/// A session that is about to be recorded, and the answer for the client.
struct NewSession {
    session: Session,
    answer: CreatedSession,
}

fn make_session(
    request: &CreateSession,
    id: SessionId4,
    channel: SessionChannel,
    reserved: u64,
) -> NewSession {
    let back = BackPath::new(
        request.back.clone(),
        request.use_for_back_channel.then_some(request.connection),
    );
    let answer = CreatedSession {
        session: id,
        sequence: request.sequence,
        channel,
        back: *back.channel(),
        back_channel_bound: request.use_for_back_channel,
    };
    let slot = || Slot {
        sequence: 0,
        rounds: 0,
        progress: Progress::Fresh,
        operations: 0,
        principal: Principal::Nobody,
    };
    let session = Session {
        id,
        client: request.client,
        channel,
        slots: (0..channel.slots).map(|_| slot()).collect(),
        reserved,
        connections: BTreeSet::new(),
        back,
    };
    NewSession { session, answer }
}

fn hear(clients: &mut std::collections::HashMap<ClientId, Client>, client: ClientId, now: Instant) {
    if let Some(client) = clients.get_mut(&client) {
        client.hear(now);
    }
}
