//! Space in the tables that an operation reserves before it changes anything.

use crate::service::Service;
use crate::state::{ClientId, State, StateKind};
use nfs4::NfsStat4;

/// Reserved space for one more state of an owner. Dropping it releases the space.
pub(super) struct Space<'s> {
    service: &'s Service,
    client: ClientId,
    owner: &'s [u8],
    kind: StateKind,
    is_used: bool,
}

impl<'s> Space<'s> {
    /// Reserves the space.
    ///
    /// # Errors
    /// Those of [`State::keep_space`].
    pub(super) fn keep(
        service: &'s Service,
        client: ClientId,
        owner: &'s [u8],
        kind: StateKind,
    ) -> Result<Space<'s>, NfsStat4> {
        service.state().keep_space(client, owner, kind)?;
        Ok(Space {
            service,
            client,
            owner,
            kind,
            is_used: false,
        })
    }

    /// Uses the space for the new state.
    pub(super) fn enter<T>(mut self, enter: impl FnOnce(&mut State) -> T) -> T {
        self.is_used = true;
        let mut state = self.service.state();
        state.give_space_back(self.client, self.owner, self.kind);
        enter(&mut state)
    }
}

impl Drop for Space<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            let mut state = self.service.state();
            state.give_space_back(self.client, self.owner, self.kind);
        }
    }
}
