//! Clients that open nothing: they repeatedly ask for attributes, and look up names that move.
//!
//! What must never enter: changes.

use nfs4::NfsStat4;
use nfs4_client::{Client, Error};

use super::Worker;
use super::answers::{unknown, within};
use super::tree::{TOKENS, token_name};
use crate::history::{Act, Outcome};

impl Worker {
    /// Looks until the work is over.
    pub(super) async fn looks(&mut self) {
        while let Some(client) = self.next().await {
            match self.random.below(2) {
                0 => self.stat(&client).await,
                _ => self.search(&client).await,
            }
        }
    }

    async fn stat(&mut self, client: &Client) {
        let log = self.random.below(self.common.tree.logs.len() as u64) as usize;
        let handle = self.common.tree.logs[log].handle.clone();
        let begin = self.now();
        let shown = within(client.stat(&handle)).await;
        let size = shown.and_then(|shown| shown.size.ok_or(Error::Unexpected("GETATTR")));
        let (size, outcome) = match size {
            Ok(size) => (size, Outcome::Done),
            Err(error) => (0, unknown(&error)),
        };
        self.record(begin, Act::Stat { log, size }, outcome).await;
    }

    async fn search(&mut self, client: &Client) {
        let token = self.random.below(TOKENS as u64) as usize;
        let (name, rings) = (token_name(token), self.common.tree.rings.clone());
        let begin = self.now();
        let (mut found, mut outcome) = (Vec::new(), Outcome::Done);
        for (ring, directory) in rings.iter().enumerate() {
            match within(client.lookup(directory, &*name)).await {
                Ok(_) => found.push(ring),
                Err(error) if error.status() == Some(NfsStat4::NoEnt) => {}
                Err(error) => {
                    outcome = unknown(&error);
                    break;
                }
            }
        }
        self.record(begin, Act::Search { token, found }, outcome)
            .await;
    }
}
