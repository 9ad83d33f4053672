//! Reclaims that are under way: the grace period does not end for others while there are any.
//!
//! What must never enter: who may reclaim what.

use nfs4::NfsStat4;

use crate::service::Service;
use crate::state::{ClientId, Reclaim};

/// An OPEN or LOCK that was admitted. If it reclaims by the grace period, it does so until this is dropped.
pub(crate) struct Admitted<'s>(Option<&'s Service>);

impl Service {
    /// Decides whether an OPEN or LOCK may go on. What is returned is kept until it is entered in the tables.
    ///
    /// # Errors
    /// Those of [`State::admit`](crate::state::State::admit).
    pub(crate) fn admit(
        &self,
        client: ClientId,
        reclaim: Reclaim,
    ) -> Result<Admitted<'_>, NfsStat4> {
        let now = self.now();
        let by_grace = self.state().admit(client, reclaim, now)?;
        Ok(Admitted(by_grace.then_some(self)))
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if let Some(service) = self.0 {
            service.state().reclaim_ended();
            service.request_has_ended();
        }
    }
}
