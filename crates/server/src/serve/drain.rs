//! Sending the clients of the replicated tree to other servers, and stopping when they have gone.
//!
//! What must never enter: how a question arrives, and how clients are told.

use std::time::Duration;

use nfs4_server::Location;

use super::overview::Overview;
use crate::status::{DrainAnswer, DrainQuestion};

/// How often it is looked whether all clients have gone.
const LOOK: Duration = Duration::from_millis(200);

impl Overview {
    /// Begins to send clients away, or says how far it is.
    pub(super) async fn drain(&self, question: &DrainQuestion) -> Result<DrainAnswer, String> {
        let Some(tree) = self.trees.iter().find(|tree| tree.replica.is_some()) else {
            return Err("this server belongs to no set, so there is no other server that has its trees; stop it, and clients wait until it is back".to_owned());
        };
        if tree.is_withheld() {
            return Err("this server is a witness and has no clients; just stop it".to_owned());
        }
        if question.to.is_empty() {
            return Err(
                "name at least one other server of the set, where clients reach it, with --to"
                    .to_owned(),
            );
        }
        let location = |address: &String| Location {
            addresses: vec![address.clone()],
        };
        let locations = question.to.iter().map(location).collect();
        if let (None, Some(replica)) = (self.service.to_be_drained(), &tree.replica) {
            let to = question.to.join(", ");
            replica
                .put_on_record(format!("sent its clients to {to}"))
                .await;
        }
        let tree = tree.file_system.properties().fs_id;
        let patience = Duration::from_secs(question.patience_seconds);
        self.service.begin_drain(tree, locations, patience);
        let clients = self.service.to_be_drained().unwrap_or_default();
        Ok(DrainAnswer {
            clients: clients as u64,
        })
    }

    /// Returns when all clients have been sent away, or were waited for long enough; never if nobody wants them to
    /// go.
    pub(super) async fn drained(&self) {
        while !self.service.drained() {
            tokio::time::sleep(LOOK).await;
        }
    }
}
