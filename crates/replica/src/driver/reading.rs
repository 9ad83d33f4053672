//! How long clients may read the local copy past this replica: as long as the replica itself answers readers, and only until another replica learns
//! that it may change a file (rule 23; rule 11 of striping).
//!
//! What must never enter: where and how clients read.

use std::sync::Arc;
use std::time::Duration;

use control::Mark;
use tokio::task::JoinSet;
use vfs::ObjectId;

use crate::driver::engine::Engine;
use crate::driver::local_replica::LocalReplica;

impl LocalReplica {
    /// Whether this copy answers readers of a file, provided that no other replica decides about it: it has all of the file.
    pub(crate) fn is_read_here(&self, file: ObjectId) -> bool {
        let store = &self.store;
        let lacks = store.is_incomplete(file) || store.is_to_fetch(file);
        let is_good = !store.is_damaged(file) && !store.is_abandoned(file);
        self.is_whole() && !lacks && is_good && self.engine.foreign_primary(file).is_none()
    }

    /// How long this copy may answer readers if nothing more is granted.
    pub(crate) fn readers_left(&self) -> Duration {
        if self.state.is_witness || self.state.members.is_removed() {
            return Duration::ZERO;
        }
        if self.engine.is_alone() {
            return Duration::MAX;
        }
        match self.is_whole() && self.lease.may_answer() {
            true => (self.lease.left_micros()).map_or(Duration::MAX, Duration::from_micros),
            false => Duration::ZERO,
        }
    }

    /// Whether clients read past this replica.
    pub(super) fn has_readers(&self) -> bool {
        self.readers.is_some()
    }

    /// Ends all reading of files that others may change now. Only then are others told what the records up to `through` granted them, and only then
    /// are their changes under those controls applied: applying a change tells them as much as an acknowledgement.
    pub(super) async fn end_readers(&self, through: Mark) {
        let Some(readers) = &self.readers else {
            return;
        };
        let mut ending = JoinSet::new();
        for file in readers.files() {
            if !self.is_read_here(file) {
                let readers = Arc::clone(readers);
                ending.spawn(async move { readers.end(file).await });
            }
        }
        ending.join_all().await;
        self.engine.readers_ended(through);
    }

    /// Returns when all reading by permission of an earlier start has ended.
    pub(super) async fn earlier_readers_ended(&self) {
        if let Some(readers) = &self.readers {
            readers.earlier_ended().await;
            self.engine.readers_ended(Mark(0));
        }
    }
}

impl Engine {
    /// All reading has ended of what records up to this one granted to others, and by permission of an earlier start.
    fn readers_ended(&self, through: Mark) {
        self.with_core(|guard| {
            guard.ledger.read_past.ended(through);
            guard.notifies = true;
        });
    }
}
