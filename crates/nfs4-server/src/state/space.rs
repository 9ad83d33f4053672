//! Space for one more open, or one more lock state, that a request keeps before it changes anything: a file that is made, cut or
//! locked for somebody who is then refused would stay so.
//!
//! What must never enter: what the space is used for.

use nfs4::NfsStat4;

use super::State;
use super::client::{Client, ClientId};

/// Of what there is to be one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// An open of a file.
    Open,
    /// A state of byte-range locks.
    Lock,
}

/// How many opens and lock states of a client have space and are not entered yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    opens: usize,
    locks: usize,
}

impl Kept {
    fn of(&mut self, kind: StateKind) -> &mut usize {
        match kind {
            StateKind::Open => &mut self.opens,
            StateKind::Lock => &mut self.locks,
        }
    }
}

impl Client {
    /// Whether it has as many as it may have, with those for which space is kept.
    pub(super) fn is_full_of(&self, kind: StateKind, most: usize) -> bool {
        let mut kept = self.kept;
        let entered = match kind {
            StateKind::Open => self.opens.len(),
            StateKind::Lock => self.locks.len(),
        };
        entered + *kept.of(kind) >= most
    }
}

impl State {
    /// Keeps space for one more of this owner, until [`State::give_space_back`].
    ///
    /// # Errors
    /// `STALE_CLIENTID` when the client is gone, `SERVERFAULT` when it has too many, `DELAY` when all clients together have.
    pub fn keep_space(
        &mut self,
        client: ClientId,
        owner: &[u8],
        kind: StateKind,
    ) -> Result<(), NfsStat4> {
        if (self.confirmed(client)?).is_full_of(kind, self.limits.states_per_client) {
            return Err(NfsStat4::ServerFault);
        }
        self.memory.add_state(owner, &self.limits)?;
        if let Some(client) = self.clients.get_mut(&client) {
            *client.kept.of(kind) += 1;
        }
        Ok(())
    }

    /// Ends that: to enter it, by one who goes on without letting anybody else at the tables, or because it is not needed.
    pub fn give_space_back(&mut self, client: ClientId, owner: &[u8], kind: StateKind) {
        self.memory.remove_state(owner);
        if let Some(client) = self.clients.get_mut(&client) {
            let kept = client.kept.of(kind);
            *kept = kept.saturating_sub(1);
        }
    }
}
