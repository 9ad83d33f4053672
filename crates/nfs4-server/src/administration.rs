//! What an administrator sees of clients, and does to them: who they are, sending one away for good, other access rules.
//!
//! What must never enter: how questions arrive.

use crate::namespace::{AccessRule, PseudoPath};
use crate::service::Service;
use crate::state::{ClientId, ClientView};

impl Service {
    /// The clients that have confirmed who they are.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientView> {
        let now = self.now();
        self.state().clients(now)
    }

    /// Takes everything from a client that it has open or locked, as if its lease had run out, and forgets it. It may come again,
    /// as a new one. Returns whether there was such a client, once what it held is let go.
    pub async fn evict(&self, client: ClientId) -> bool {
        let (found, departure) = self.state().evict(client);
        self.see_off(departure).await;
        found
    }

    /// Replaces the access rules of the export at a path; they count from the next operation on. Returns whether there is
    /// such an export.
    pub fn set_rules(&self, path: &PseudoPath, rules: &[AccessRule]) -> bool {
        let mut exports = self.namespace().exports().iter();
        let export = exports.find(|export| export.path == *path);
        if let Some(export) = export {
            export.set_rules(rules);
        }
        export.is_some()
    }
}
