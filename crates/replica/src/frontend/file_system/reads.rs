//! Large reads of what another replica controls: contents cross the wide area once.
//!
//! A forwarded read returns contents that are on their way here anyway. So the primary sends those first, waits until the asker has them, and
//! answers that its copy is right; the asker reads that. If they do not come soon, or if the read is small, the answer brings the data.
//!
//! What must never enter: which piece is sent when; `shipping` decides that.

use std::ops::Range;
use std::time::Duration;

use store::Store;
use tokio::time::Instant;
use vfs::{AccessCheck, FileSystem, ObjectId, ReadData, ReplicaSlot, Result};

use super::ReplicatedFileSystem;
use crate::driver::engine::Engine;
use crate::state::forward::{self, Fetched, Operation, Value};

/// A smaller read is answered at once: another round trip would take longer than sending it twice.
const WORTH_WAITING: u64 = 64 << 10;

/// Updates are sent when they are on the disk; data that no client has committed may take long to get there.
const SOON_STABLE: Duration = Duration::from_millis(50);

/// If the asker has got nothing more of the file for this long, the answer brings the data.
const STANDSTILL: Duration = Duration::from_secs(1);

/// And after this time in any case, because the caller does not wait for ever.
const LONGEST: Duration = Duration::from_secs(20);

impl ReplicatedFileSystem {
    /// Reads through the primary, or from the local copy once that has what the primary has.
    pub(super) async fn read_once(
        &self,
        access: AccessCheck<'_>,
        file: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadData> {
        let own = || async {
            let _work = self.replica.state.load.begin();
            self.replica.store.read(access, file, offset, count).await
        };
        if self.may_fetch(file, count) {
            let attempt = || async { own().await.map(Fetched::Data) };
            let operation = || Operation::Fetch(access.into(), file, offset, count);
            if let Fetched::Data(data) = self.look(&[file], attempt, operation).await? {
                return Ok(data);
            }
            let read = own().await;
            if read.is_ok() && self.may_answer() && self.check_content(file).is_ok() {
                return read;
            }
        }
        let operation = || Operation::Read(access.into(), file, offset, count);
        self.look(&[file], own, operation).await
    }

    /// Whether the local copy of a file lacks only what its primary sends.
    fn may_fetch(&self, file: ObjectId, count: u32) -> bool {
        let store = &self.replica.store;
        let removed = store.orphan_home(file).is_some();
        if self.is_forwarded() || removed || u64::from(count) < WORTH_WAITING {
            return false;
        }
        self.holder(file).is_some_and(|holder| {
            let lacking = store.lacks_data_of(file);
            !store.is_damaged(file)
                && !store.is_to_fetch(file)
                && store.given_way(file).is_empty()
                && lacking.into_iter().all(|primary| primary == holder)
        })
    }

    /// Answers such a read at the primary: `to` already has the data, or `read` brings it.
    pub(crate) async fn fetch(
        &self,
        to: ReplicaSlot,
        file: ObjectId,
        range: Range<u64>,
        read: Operation,
    ) -> Result<Value> {
        if self.replica.store.orphan_home(file).is_some() {
            // Its content is not sent to any replica any more.
            return forward::perform(self, read).await;
        }
        let engine = &self.replica.engine;
        let position = engine.last_position();
        let size = self.attributes(file).await?.size;
        let wanted = size.min(range.end).saturating_sub(range.start);
        if wanted >= WORTH_WAITING && self.comes(to, file, &range, position).await {
            // This replica is still primary, and what was changed here meanwhile is there as well.
            self.attributes(file).await?;
            if engine.has_range(to, file, &range, position) {
                return Ok(Value::Here);
            }
        }
        forward::perform(self, read).await
    }

    /// Waits until a peer has a range of a file as it is here, and all updates up to a position. False if this is not expected soon, or if too
    /// many requests wait.
    async fn comes(
        &self,
        to: ReplicaSlot,
        file: ObjectId,
        range: &Range<u64>,
        position: u64,
    ) -> bool {
        let Ok(_waiting) = self.replica.state.fetches.try_acquire() else {
            return false;
        };
        let store = &self.replica.store;
        let is_whole = !store.is_incomplete(file) && !store.is_damaged(file);
        is_whole
            && is_stable(store, position).await
            && bring(&self.replica.engine, to, file, range, position).await
    }
}

/// Whether everything up to a position is on the disk here, now or soon.
async fn is_stable(store: &Store, position: u64) -> bool {
    let mut stable = store.stable_position();
    let stable = stable.wait_for(|stable| *stable >= position);
    matches!(tokio::time::timeout(SOON_STABLE, stable).await, Ok(Ok(_)))
}

/// Waits until a peer has that, while it gets more and more of the file. False if that stops.
async fn bring(
    engine: &Engine,
    to: ReplicaSlot,
    file: ObjectId,
    range: &Range<u64>,
    position: u64,
) -> bool {
    let deadline = Instant::now() + LONGEST;
    let mut left = u128::MAX;
    while Instant::now() < deadline {
        let come = engine.until_has_range(to, file, range, position);
        if tokio::time::timeout(STANDSTILL, come).await.is_ok() {
            return true;
        }
        let lacking = engine.bytes_lacking(to, file);
        if lacking >= left {
            return false;
        }
        left = lacking;
        // Later changes are awaited, too.
        engine.expedite(Some(file));
    }
    false
}
