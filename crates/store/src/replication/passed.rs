//! Versions that must not be used again: servers that are gone for ever may have shown them to their clients, and no
//! remaining server has seen them.
//!
//! What must never enter: which servers are gone, and who decides that.

use std::sync::Arc;

use vfs::{ReplicaSlot, Result};

use crate::counters::Sequence;
use crate::metadata::Table;
use crate::open_store::OpenStore;
use crate::rows::key;

/// The prefix of the key of the row that records that a replica's versions were skipped; its slot follows.
const PASSED: &[u8] = b"passed";

/// More versions than a lost replica can have shown beyond those known here. This holds also if that replica had itself continued without
/// several lost replicas before and skipped the versions that those may have shown ([`crate::OpenStore::abandon`]).
const PASSED_VERSIONS: u64 = 1 << 34;

impl OpenStore {
    /// Versions made here from now on differ from all versions that these replicas, which are gone for ever, may have shown. Takes effect once
    /// for each replica. Stable on return.
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
        // The reservation of the numbers after them is in the same batch as the rows.
        let ticket = mutation.commit_local()?;
        self.commits.wait(ticket, &self.health).await
    }
}
