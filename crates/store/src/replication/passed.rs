//! Versions that nobody may make any more: servers that are gone for ever may have shown them to their clients, and nobody
//! who is left has heard of them.
//!
//! What must never enter: who is gone, and on whose word.

use std::sync::Arc;

use vfs::{ReplicaSlot, Result};

use crate::counters::Sequence;
use crate::metadata::Table;
use crate::open_store::OpenStore;
use crate::rows::key;

/// The key of the row that says that a replica's versions have been passed, before its slot.
const PASSED: &[u8] = b"passed";

/// More versions than a replica that is gone can have shown beyond what is known here, also when it had gone on without several
/// lost ones before, and passed what those can have shown ([`crate::OpenStore::abandon`]).
const PASSED_VERSIONS: u64 = 1 << 34;

impl OpenStore {
    /// Versions made here from now on are none that these replicas, which are gone for ever, may have shown anybody. Once for each of
    /// them. Stable on return.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when storage fails.
    pub async fn pass_versions(
        self: &Arc<Self>,
        gone: impl IntoIterator<Item = ReplicaSlot>,
    ) -> Result<()> {
        let mut news = Vec::new();
        for slot in gone {
            let row = [PASSED, &slot.0.to_be_bytes()].concat();
            if self.metadata.row(Table::System, &row)?.is_none() {
                news.push(row);
            }
        }
        if news.is_empty() {
            return Ok(());
        }
        let mut mutation = self.begin_maintenance().await?;
        let last = mutation.last(Sequence::Changes);
        for row in news {
            mutation.put_local(Table::System, &row, &key::number(last));
        }
        mutation.raise(Sequence::Changes, last.saturating_add(PASSED_VERSIONS));
        // The reservation behind them goes with the rows.
        let ticket = mutation.commit_local()?;
        self.commits.wait(ticket, &self.health).await
    }
}
