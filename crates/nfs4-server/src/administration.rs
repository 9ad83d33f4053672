//! The administrator's view of clients, and operations on them: list, evict, and replace access rules.
//!
//! What must never enter: how questions arrive.

use crate::namespace::{AccessRule, PseudoPath};
use crate::service::Service;
use crate::state::{ClientId, ClientView};

impl Service {
    /// The confirmed clients.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientView> {
        let now = self.now();
        self.state().clients(now)
    }

    /// Removes all opens and locks of a client, as if its lease had expired, and its record. It may come again as a new
    /// client. Returns whether there was such a client, after its state has been released.
    pub async fn evict(&self, client: ClientId) -> bool {
        let (found, departure) = self.state().evict(client);
        self.see_off(departure).await;
        found
    }

    /// Replaces the access rules of the export at a path, from the next operation on. Returns whether there is such an
    /// export.
    pub fn set_rules(&self, path: &PseudoPath, rules: &[AccessRule]) -> bool {
        let mut exports = self.namespace().exports().iter();
        let export = exports.find(|export| export.path == *path);
        if let Some(export) = export {
            export.set_rules(rules);
        }
        export.is_some()
    }
}
