//! Space for one more open or lock state. A request reserves it before it changes anything: a file that was created,
//! cut or locked for a client that is then refused would stay so.
//!
//! What must never enter: the use of the space.

use nfs4::NfsStat4;

use super::State;
use super::client::{Client, ClientId};

/// The kind of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// An open of a file.
    Open,
    /// A state of byte-range locks.
    Lock,
}

/// The number of opens and lock states of a client that have space and are not recorded yet.
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
    /// Whether it has the maximum number, including reserved space.
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
    /// Reserves space for one more state of this owner, until [`State::give_space_back`].
    ///
    /// # Errors
    /// `STALE_CLIENTID` when the client is gone, `SERVERFAULT` when it has too many, `DELAY` when all clients together have too many.
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

    /// Ends the reservation: either the caller records the state now without releasing the tables, or it does not need the space.
    pub fn give_space_back(&mut self, client: ClientId, owner: &[u8], kind: StateKind) {
        self.memory.remove_state(owner);
        if let Some(client) = self.clients.get_mut(&client) {
            let kept = client.kept.of(kind);
            *kept = kept.saturating_sub(1);
        }
    }
}
