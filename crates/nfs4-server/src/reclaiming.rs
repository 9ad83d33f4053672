//! Reclaims in progress: the grace period does not end for others while there are any.
//!
//! What must never enter: which client may reclaim what.

use nfs4::NfsStat4;

use crate::service::Service;
use crate::state::{ClientId, Reclaim};

/// An admitted OPEN or LOCK. If it reclaims under the grace period, the reclaim is in progress until this is dropped.
pub(crate) struct Admitted<'s>(Option<&'s Service>);

impl Admitted<'_> {
    /// Whether the grace period is why it may be reclaimed. Anything else must be in the tables behind the file system boundary.
    pub(crate) fn is_by_grace(&self) -> bool {
        self.0.is_some()
    }
}

impl Service {
    /// Decides whether an OPEN or LOCK may continue. The caller keeps the result until the state is in the tables.
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
