//! The back channel to a client: its connections, and its single slot (RFC 8881, sections 2.10.3.1 and 20.9).
//!
//! What must never enter: the calls themselves, and their content.

use std::collections::BTreeSet;

use nfs4::{NfsStat4, SessionId4};
use oncrpc::Credentials;

use super::State;
use super::client::ClientId;
use super::session::{ConnectionId, Session, SessionChannel};

/// How to call a client back on a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackChannel {
    /// The RPC program number that the client serves (`csa_cb_program`).
    pub program: u32,
    /// The minor version of calls: that of the session.
    pub minor_version: u32,
    /// The credentials for calls: the first offer of the client that the server can send. `None` without any: such a
    /// client cannot be called.
    pub credentials: Option<Credentials>,
    /// Sizes.
    pub channel: SessionChannel,
}

/// A call to a client, in progress or about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The session it runs in.
    pub session: SessionId4,
    /// The connection to use.
    pub connection: ConnectionId,
    /// The client's RPC program.
    pub program: u32,
    /// The minor version of the call.
    pub minor_version: u32,
    /// The server's credentials for the call.
    pub credentials: Credentials,
    /// The largest call that the client takes, in bytes, RPC header included.
    pub request_bytes: u32,
    /// Sequence number on the only slot, 0.
    pub sequence: u32,
}

/// The outcome of a call to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackEnd {
    /// CB_SEQUENCE succeeded, so the client has used up the sequence number.
    Executed,
    /// The client answered without using up the sequence number, or the call was not made at all.
    Refused,
    /// There was no answer: the client may or may not have seen the call.
    Unanswered,
}

/// Which back channels of a client are broken, as SEQUENCE reports it. A channel that the client never opened does not
/// count as broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackChannelHealth {
    /// The session has lost its last connection for callbacks.
    pub session_down: bool,
    /// No other session of the client has one either.
    pub client_down: bool,
}

/// A session's back channel in the tables.
#[derive(Debug)]
pub(super) struct BackPath {
    how: BackChannel,
    connections: BTreeSet<ConnectionId>,
    /// Whether the client ever bound a connection to it.
    was_open: bool,
    /// Sequence number of the next callback; the first is 1.
    sequence: u32,
    /// Whether a callback is in progress.
    busy: bool,
}

impl BackPath {
    /// There is only one slot: callbacks are hints, one at a time.
    pub(super) fn new(how: BackChannel, connection: Option<ConnectionId>) -> BackPath {
        let channel = SessionChannel {
            slots: 1,
            ..how.channel
        };
        BackPath {
            how: BackChannel { channel, ..how },
            was_open: connection.is_some(),
            connections: connection.into_iter().collect(),
            sequence: 1,
            busy: false,
        }
    }

    pub(super) fn channel(&self) -> &SessionChannel {
        &self.how.channel
    }

    fn is_usable(&self) -> bool {
        !self.busy && !self.connections.is_empty() && self.how.credentials.is_some()
    }

    fn is_down(&self) -> bool {
        self.was_open && self.connections.is_empty()
    }
}

impl State {
    /// Associates a connection with a session, and optionally with its back channel (RFC 8881, section 18.34).
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
        session.associate(connection, &mut self.associations);
        if back_channel {
            session.back.connections.insert(connection);
            session.back.was_open = true;
        }
        Ok(())
    }

    /// Changes the parameters of a client's back channel (RFC 8881, section 18.33).
    ///
    /// # Errors
    /// `BADSESSION` when there is no such session.
    pub fn set_back_channel(
        &mut self,
        id: SessionId4,
        program: u32,
        credentials: Option<Credentials>,
    ) -> Result<(), NfsStat4> {
        let session = self.sessions.get_mut(&id).ok_or(NfsStat4::BadSession)?;
        session.back.how.program = program;
        session.back.how.credentials = credentials;
        Ok(())
    }

    /// Forgets a connection that is gone.
    pub fn connection_closed(&mut self, connection: ConnectionId) {
        for id in self.associations.remove(&connection).unwrap_or_default() {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.connections.remove(&connection);
                session.back.connections.remove(&connection);
            }
        }
    }

    /// Takes the back channel slot of one of the client's sessions, to call the client. `None` when no session has a
    /// connection for it, or all slots are in use: a callback is a hint that may be left out. [`State::end_callback`]
    /// returns the slot.
    pub fn begin_callback(&mut self, client: ClientId) -> Option<Callback> {
        let client = self.clients.get(&client)?;
        let is_usable = |id: &&SessionId4| {
            let session = self.sessions.get(*id);
            session.is_some_and(|session| session.back.is_usable())
        };
        let id = *client.sessions.iter().find(is_usable)?;
        let path = &mut self.sessions.get_mut(&id)?.back;
        let connection = *path.connections.last()?;
        let credentials = path.how.credentials.clone()?;
        path.busy = true;
        Some(Callback {
            session: id,
            connection,
            program: path.how.program,
            minor_version: path.how.minor_version,
            credentials,
            request_bytes: path.how.channel.request_bytes,
            sequence: path.sequence,
        })
    }

    /// Returns a back channel slot. After a call without an answer the connection counts as unusable until the client
    /// binds one again, and the sequence number stays the same (RFC 8881, section 2.10.6.2).
    pub fn end_callback(&mut self, callback: &Callback, end: CallbackEnd) {
        let Some(session) = self.sessions.get_mut(&callback.session) else {
            return;
        };
        let path = &mut session.back;
        path.busy = false;
        match end {
            CallbackEnd::Executed => path.sequence = path.sequence.wrapping_add(1),
            CallbackEnd::Refused => {}
            CallbackEnd::Unanswered => {
                path.connections.remove(&callback.connection);
            }
        }
    }

    /// The state of the back channels to the client of a session, for SEQUENCE.
    pub(super) fn back_channel_health(&self, session: &Session) -> BackChannelHealth {
        if !session.back.is_down() {
            return BackChannelHealth::default();
        }
        let siblings = self.clients.get(&session.client).into_iter();
        let client_down = siblings
            .flat_map(|client| &client.sessions)
            .filter_map(|id| self.sessions.get(id))
            .all(|sibling| sibling.back.connections.is_empty());
        BackChannelHealth {
            session_down: true,
            client_down,
        }
    }
}
