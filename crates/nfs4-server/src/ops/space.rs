//! Space in the tables that an operation keeps before it changes anything.

use crate::service::Service;
use crate::state::{ClientId, State, StateKind};
use nfs4::NfsStat4;

/// Space for one more of an owner. Dropping it gives it back.
pub(super) struct Space<'s> {
    service: &'s Service,
    client: ClientId,
    owner: &'s [u8],
    kind: StateKind,
    is_used: bool,
}

impl<'s> Space<'s> {
    /// Keeps it.
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

    /// Enters what it was kept for.
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
