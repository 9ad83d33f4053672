//! Sessions and their reply caches: exactly-once execution (RFC 8881, section 2.10.6).

use std::collections::BTreeSet;
use std::time::Instant;

use nfs4::{NfsStat4, SessionId4};
use xdr::Rope;

use super::client::{Client, ClientId, Principal};
use super::{Release, State};

/// One transport connection, numbered by the part of the server that accepts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The agreed sizes of one direction of a session (RFC 8881, section 18.36.3, `channel_attrs4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionChannel {
    /// Largest request in bytes.
    pub request_bytes: u32,
    /// Largest reply in bytes.
    pub response_bytes: u32,
    /// Largest reply kept for repeats, in bytes.
    pub cached_response_bytes: u32,
    /// Operations in one COMPOUND.
    pub operations: u32,
    /// Slots.
    pub slots: u32,
}

/// How to call a client back on a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackChannel {
    /// The RPC program number that the client serves (`csa_cb_program`).
    pub program: u32,
    /// Whether the client accepts AUTH_SYS callbacks; AUTH_NONE is used otherwise.
    pub auth_sys: bool,
    /// Sizes.
    pub channel: SessionChannel,
}

/// A CREATE_SESSION request, reduced to what decides it.
#[derive(Clone, Debug)]
pub struct CreateSession {
    /// The record that EXCHANGE_ID named.
    pub client: ClientId,
    /// Sequence number of the request (`csa_sequence`).
    pub sequence: u32,
    /// Under whose credentials it came.
    pub principal: Principal,
    /// The connection it came over, which the session starts with.
    pub connection: ConnectionId,
    /// Sizes the client asks for.
    pub channel: SessionChannel,
    /// How to call back, and whether over this connection.
    pub back: BackChannel,
    /// Whether the connection serves as back channel too.
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

/// A SEQUENCE request with what the server notes of the whole COMPOUND.
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
    /// Whether the reply is to be kept.
    pub cache: bool,
    /// Size of the request in bytes.
    pub request_bytes: usize,
    /// Number of operations in the COMPOUND.
    pub operations: u32,
    /// Under whose credentials it came.
    pub principal: Principal,
    /// The connection it came over.
    pub connection: ConnectionId,
}

/// How a COMPOUND with a SEQUENCE in front goes on.
#[derive(Clone, Debug)]
pub enum Sequenced {
    /// It is new: execute it, then call [`State::finish_sequence`].
    Execute {
        /// Who owns the session.
        client: ClientId,
        /// Sizes of the session.
        channel: SessionChannel,
        /// Where the reply goes.
        slot: ReplySlot,
        /// Flags for `sr_status_flags`.
        callback_path_down: bool,
    },
    /// It was executed before: send this again.
    Replay(Rope),
}

/// A call to a client, under way or about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The session it runs in.
    pub session: SessionId4,
    /// The connection to use.
    pub connection: ConnectionId,
    /// The client's RPC program.
    pub program: u32,
    /// Whether to send AUTH_SYS credentials.
    pub auth_sys: bool,
    /// Sequence number on the only slot, 0.
    pub sequence: u32,
}

/// The place in a reply cache that a request under way occupies.
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
    /// The last request's reply, if it was to be kept.
    Done(Option<Rope>),
}

#[derive(Debug)]
struct Slot {
    sequence: u32,
    progress: Progress,
    operations: u32,
    principal: Principal,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: ClientId,
    channel: SessionChannel,
    slots: Vec<Slot>,
    back: BackChannel,
    back_connections: BTreeSet<ConnectionId>,
    /// Whether the client ever bound a connection to the back channel.
    had_back_channel: bool,
    /// Sequence number of the next callback (RFC 8881, section 20.9: the first is 1).
    back_sequence: u32,
    /// Whether a callback is under way.
    back_busy: bool,
}

impl Session {
    fn is_busy(&self) -> bool {
        self.slots
            .iter()
            .any(|slot| matches!(slot.progress, Progress::UnderWay))
    }
}

impl State {
    /// Makes a session and confirms the client record (RFC 8881, section 18.36.4).
    ///
    /// # Errors
    /// `STALE_CLIENTID` for an unknown record, `SEQ_MISORDERED` for a sequence number that is neither the
    /// next nor the last, `CLID_INUSE` when another principal introduced the client, `TOOSMALL`
    /// when the client's sizes leave no room, `DELAY` when it has too many sessions.
    pub fn create_session(
        &mut self,
        request: &CreateSession,
        now: Instant,
    ) -> Result<(CreatedSession, Vec<Release>), NfsStat4> {
        let client = self
            .clients
            .get_mut(&request.client)
            .ok_or(NfsStat4::StaleClientid)?;
        if request.sequence.wrapping_add(1) == client.next_create
            && let Some(last) = &client.last_create
        {
            return last.clone().map(|reply| (reply, Vec::new()));
        }
        if request.sequence != client.next_create {
            return Err(NfsStat4::SeqMisordered);
        }
        if !client.confirmed && client.principal != request.principal {
            return Err(NfsStat4::ClidInUse);
        }
        client.next_create = client.next_create.wrapping_add(1);
        client.renewed = now;
        let outcome = self.make_session(request);
        let releases = if outcome.is_ok() {
            self.confirm(request.client)
        } else {
            Vec::new()
        };
        if let Some(client) = self.clients.get_mut(&request.client) {
            client.last_create = Some(outcome.clone());
        }
        outcome.map(|reply| (reply, releases))
    }

    fn make_session(&mut self, request: &CreateSession) -> Result<CreatedSession, NfsStat4> {
        let channel = self.grant_channel(&request.channel)?;
        let client = self
            .clients
            .get_mut(&request.client)
            .ok_or(NfsStat4::StaleClientid)?;
        if client.sessions.len() >= self.limits.sessions_per_client {
            return Err(NfsStat4::Delay);
        }
        let id = session_id(request.client, self.next_session);
        self.next_session += 1;
        client.sessions.push(id);
        let back_channel = SessionChannel {
            slots: 1,
            ..request.back.channel
        };
        let back = BackChannel {
            channel: back_channel,
            ..request.back.clone()
        };
        let slot = || Slot {
            sequence: 0,
            progress: Progress::Fresh,
            operations: 0,
            principal: Principal::Nobody,
        };
        let mut back_connections = BTreeSet::new();
        if request.use_for_back_channel {
            back_connections.insert(request.connection);
        }
        self.sessions.insert(
            id,
            Session {
                client: request.client,
                channel,
                slots: (0..channel.slots).map(|_| slot()).collect(),
                back,
                back_connections,
                had_back_channel: request.use_for_back_channel,
                back_sequence: 1,
                back_busy: false,
            },
        );
        Ok(CreatedSession {
            session: id,
            sequence: request.sequence,
            channel,
            back: back_channel,
            back_channel_bound: request.use_for_back_channel,
        })
    }

    /// Cuts the sizes that a client asks for to what this server grants.
    fn grant_channel(&self, asked: &SessionChannel) -> Result<SessionChannel, NfsStat4> {
        /// Room for a SEQUENCE and one small operation; less cannot be worked with.
        const SMALLEST_MESSAGE_BYTES: u32 = 256;
        if asked.request_bytes < SMALLEST_MESSAGE_BYTES
            || asked.response_bytes < SMALLEST_MESSAGE_BYTES
        {
            return Err(NfsStat4::TooSmall);
        }
        let limits = &self.limits;
        Ok(SessionChannel {
            request_bytes: asked.request_bytes.min(limits.request_bytes),
            response_bytes: asked.response_bytes.min(limits.response_bytes),
            cached_response_bytes: asked
                .cached_response_bytes
                .min(limits.cached_response_bytes),
            operations: asked.operations.clamp(1, limits.operations),
            slots: asked.slots.clamp(1, limits.slots),
        })
    }

    /// Takes a SEQUENCE (RFC 8881, section 18.46.3) and renews the client's lease.
    ///
    /// # Errors
    /// `BADSESSION`, `BADSLOT`, `BAD_HIGH_SLOT`, `SEQ_MISORDERED`, `SEQ_FALSE_RETRY`,
    /// `RETRY_UNCACHED_REP`, `TOO_MANY_OPS`, `REQ_TOO_BIG`; `DELAY` for a repeat of a request that is
    /// still being executed.
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
                renew(&mut self.clients, session.client, now);
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
        slot.sequence = request.sequence;
        slot.operations = request.operations;
        slot.principal = request.principal;
        slot.progress = Progress::UnderWay;
        renew(&mut self.clients, session.client, now);
        Ok(Sequenced::Execute {
            client: session.client,
            channel: session.channel,
            slot: ReplySlot {
                session: request.session,
                slot: request.slot,
            },
            callback_path_down: session.had_back_channel && session.back_connections.is_empty(),
        })
    }

    /// Ends a request that [`State::sequence`] let through. `reply` is kept for repeats when given.
    pub fn finish_sequence(&mut self, place: ReplySlot, reply: Option<Rope>, now: Instant) {
        // The session may have been destroyed meanwhile, even by the request itself.
        if let Some(session) = self.sessions.get_mut(&place.session) {
            session.slots[place.slot as usize].progress = Progress::Done(reply);
            renew(&mut self.clients, session.client, now);
        }
    }

    /// Ends a session (RFC 8881, section 18.37). The client record stays.
    ///
    /// # Errors
    /// `BADSESSION` when there is none, `DELAY` when other requests are being executed on it.
    pub fn destroy_session(
        &mut self,
        id: SessionId4,
        own_slot: Option<ReplySlot>,
    ) -> Result<(), NfsStat4> {
        let session = self.sessions.get(&id).ok_or(NfsStat4::BadSession)?;
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
        self.sessions.remove(&id);
        Ok(())
    }

    /// Lets a connection serve a session's back channel (RFC 8881, section 18.34).
    ///
    /// # Errors
    /// `BADSESSION` when there is no such session.
    pub fn bind_connection(
        &mut self,
        id: SessionId4,
        connection: ConnectionId,
        back_channel: bool,
    ) -> Result<(), NfsStat4> {
        let session = self.sessions.get_mut(&id).ok_or(NfsStat4::BadSession)?;
        if back_channel {
            session.back_connections.insert(connection);
            session.had_back_channel = true;
        }
        Ok(())
    }

    /// Changes how a client is called back (RFC 8881, section 18.33).
    ///
    /// # Errors
    /// `BADSESSION` when there is no such session.
    pub fn set_back_channel(
        &mut self,
        id: SessionId4,
        program: u32,
        auth_sys: bool,
    ) -> Result<(), NfsStat4> {
        let session = self.sessions.get_mut(&id).ok_or(NfsStat4::BadSession)?;
        session.back.program = program;
        session.back.auth_sys = auth_sys;
        Ok(())
    }

    /// Forgets a connection that is gone.
    pub fn connection_closed(&mut self, connection: ConnectionId) {
        for session in self.sessions.values_mut() {
            session.back_connections.remove(&connection);
        }
    }

    /// Takes the back channel slot of one of the client's sessions, to call the client. `None` when no
    /// session has a connection for it, or all are in use: a callback here is a hint that may be left out.
    /// [`State::end_callback`] gives the slot back.
    pub fn begin_callback(&mut self, client: ClientId) -> Option<Callback> {
        let client = self.clients.get(&client)?;
        let usable = client.sessions.iter().find(|id| {
            let session = self.sessions.get(*id);
            session.is_some_and(|own| !own.back_busy && !own.back_connections.is_empty())
        });
        let id = *usable?;
        let session = self.sessions.get_mut(&id)?;
        let connection = *session.back_connections.last()?;
        session.back_busy = true;
        Some(Callback {
            session: id,
            connection,
            program: session.back.program,
            auth_sys: session.back.auth_sys,
            sequence: session.back_sequence,
        })
    }

    /// Gives a back channel slot back. A client that did not answer may or may not have seen the call, so
    /// the sequence number stays (RFC 8881, section 2.10.6.2) and the connection counts as unusable until
    /// the client binds one again.
    pub fn end_callback(&mut self, callback: &Callback, answered: bool) {
        let Some(session) = self.sessions.get_mut(&callback.session) else {
            return;
        };
        session.back_busy = false;
        if answered {
            session.back_sequence = session.back_sequence.wrapping_add(1);
        } else {
            session.back_connections.remove(&callback.connection);
        }
    }

    /// The client that owns a session.
    #[must_use]
    pub fn session_client(&self, id: SessionId4) -> Option<ClientId> {
        self.sessions.get(&id).map(|session| session.client)
    }

    pub(super) fn has_request_under_way(&self, client: &Client) -> bool {
        client
            .sessions
            .iter()
            .filter_map(|id| self.sessions.get(id))
            .any(Session::is_busy)
    }
}

fn renew(
    clients: &mut std::collections::HashMap<ClientId, Client>,
    client: ClientId,
    now: Instant,
) {
    if let Some(client) = clients.get_mut(&client) {
        client.renewed = now;
    }
}

/// Composes a session identifier that no other session of any incarnation of the server has.
fn session_id(client: ClientId, number: u64) -> SessionId4 {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&client.0.to_be_bytes());
    id[8..].copy_from_slice(&number.to_be_bytes());
    SessionId4(id)
}
