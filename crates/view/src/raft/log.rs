//! The Raft log and the vote: on stable storage, and completely in memory too, because the log is short.
//!
//! Keys: `v` the vote, `f` the vote by which an administrator's decision made this replica the leader, `c` the last known committed entry, `p` the last entry
//! that was purged at the front, `l` and the index an entry. What must never enter: the meaning of an entry.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{AnyError, LogState, RaftLogReader, StorageIOError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::types::{Entry, LogId, StorageError, Types, Vote};
use crate::bytes::{decode, encode};
use crate::error::ViewError;
use crate::stable_storage::{Change, StableStorage, StableStorageError};

const VOTE: &[u8] = b"v";
const FORCED: &[u8] = b"f";
const COMMITTED: &[u8] = b"c";
const PURGED: &[u8] = b"p";
/// The maximum total size of the entries in one message to another replica, in bytes.
const BATCH_BYTES_MAX: usize = 32 * 1024;

/// The log of one replica. Clones are the same log.
#[derive(Clone)]
pub(crate) struct Log {
    storage: Arc<dyn StableStorage>,
    kept: Arc<Mutex<Kept>>,
}

/// The content of stable storage.
#[derive(Default)]
struct Kept {
    vote: Option<Vote>,
    forced: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    entries: BTreeMap<u64, (Entry, usize)>,
}

/// [`crate::decode_as_anything`] for the values beside the entries.
pub(super) fn decode_as_anything(bytes: &[u8]) {
    drop(decode::<Vote>(bytes));
    drop(decode::<LogId>(bytes));
}

impl Kept {
    fn last(&self) -> Option<LogId> {
        let last = self.entries.last_key_value();
        last.map(|(_, (entry, _))| entry.log_id).or(self.purged)
    }
}

fn key(index: u64) -> Vec<u8> {
    let mut key = b"l".to_vec();
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// The value at `key`, if there is one.
pub(super) async fn read_one<T: DeserializeOwned>(
    storage: &dyn StableStorage,
    key: &[u8],
) -> Result<Option<T>, ViewError> {
    let mut after = key.to_vec();
    after.push(0);
    let rows = storage.read(key, &after).await?;
    let value = rows.first().map(|(_, value)| decode(value)).transpose();
    value.map_err(ViewError::Damaged)
}

impl Log {
    /// Reads the content of the storage.
    pub(crate) async fn open(storage: Arc<dyn StableStorage>) -> Result<Log, ViewError> {
        let mut kept = Kept {
            vote: read_one(&*storage, VOTE).await?,
            forced: read_one(&*storage, FORCED).await?,
            committed: read_one(&*storage, COMMITTED).await?,
            purged: read_one(&*storage, PURGED).await?,
            entries: BTreeMap::new(),
        };
        let after = |index: u64| {
            let next = index.checked_add(1);
            next.ok_or_else(|| ViewError::Damaged(format!("nothing can follow entry {index}")))
        };
        let purged = kept.purged.map(|purged| after(purged.index));
        let mut next = purged.transpose()?;
        for (_, value) in storage.read(b"l", b"m").await? {
            let entry: Entry = decode(&value).map_err(ViewError::Damaged)?;
            let index = entry.log_id.index;
            if next.is_some_and(|next| next != index) {
                return Err(ViewError::Damaged(format!("entry {index} is out of place")));
            }
            next = Some(after(index)?);
            kept.entries.insert(index, (entry, value.len()));
        }
        let kept = Arc::new(Mutex::new(kept));
        Ok(Log { storage, kept })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last vote.
    pub(crate) fn vote(&self) -> Option<Vote> {
        self.kept().vote
    }

    /// The end of the log.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.kept().last()
    }

    /// The entries after `applied` that were known to be committed.
    pub(crate) fn committed_after(&self, applied: Option<LogId>) -> Vec<Entry> {
        let kept = self.kept();
        let from = applied.map_or(Some(0), |applied| applied.index.checked_add(1));
        let (Some(from), Some(committed)) = (from, kept.committed) else {
            return Vec::new();
        };
        if committed.index < from {
            return Vec::new();
        }
        let entries = kept.entries.range(from..=committed.index);
        entries.map(|(_, (entry, _))| entry.clone()).collect()
    }

    async fn set<T: Serialize>(&self, key: &[u8], value: &T) -> Result<(), StableStorageError> {
        let value = encode(value).map_err(StableStorageError)?;
        self.storage.write(vec![(key.to_vec(), Some(value))]).await
    }

    /// Stores a vote durably.
    pub(crate) async fn store_vote(&self, vote: Vote) -> Result<(), StableStorageError> {
        self.set(VOTE, &vote).await?;
        self.kept().vote = Some(vote);
        Ok(())
    }

    /// Makes a replica that led before its start give up leadership, and returns whether it did. The library would
    /// continue in the same term without an election. If the storage were an older copy, the replica would give new
    /// entries the identifiers of entries that the others have, and the others would confuse them. A replica that leads
    /// because of an administrator's decision stays the leader.
    pub(crate) async fn step_down(&self, own: u64) -> Result<bool, StableStorageError> {
        let (vote, forced) = {
            let kept = self.kept();
            (kept.vote, kept.forced)
        };
        match vote.filter(|vote| vote.committed && vote.leader_id.node_id == own) {
            Some(vote) if Some(vote) != forced => {
                let vote = Vote::new(vote.leader_id.term, own);
                self.store_vote(vote).await.map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Stores entries durably, and, if given, a vote that makes this replica the leader from its next start on.
    pub(crate) async fn store(
        &self,
        entries: Vec<Entry>,
        vote: Option<Vote>,
    ) -> Result<(), StableStorageError> {
        let mut changes: Vec<Change> = Vec::new();
        if let Some(vote) = &vote {
            let vote = encode(vote).map_err(StableStorageError)?;
            changes.push((VOTE.to_vec(), Some(vote.clone())));
            changes.push((FORCED.to_vec(), Some(vote)));
        }
        let mut sized = Vec::new();
        for entry in entries {
            let value = encode(&entry).map_err(StableStorageError)?;
            let index = entry.log_id.index;
            sized.push((index, (entry, value.len())));
            changes.push((key(index), Some(value)));
        }
        self.storage.write(changes).await?;
        let mut kept = self.kept();
        kept.entries.extend(sized);
        kept.vote = vote.or(kept.vote);
        kept.forced = vote.or(kept.forced);
        Ok(())
    }

    /// Removes entries, and records how far the log is purged at the front if that changes.
    async fn drop_entries(
        &self,
        range: impl RangeBounds<u64> + Clone,
        purged: Option<LogId>,
    ) -> Result<(), StableStorageError> {
        let gone: Vec<u64> = {
            let kept = self.kept();
            let gone = kept.entries.range(range);
            gone.map(|(index, _)| *index).collect()
        };
        let mut changes: Vec<Change> = gone.iter().map(|index| (key(*index), None)).collect();
        if let Some(purged) = &purged {
            changes.push((
                PURGED.to_vec(),
                Some(encode(purged).map_err(StableStorageError)?),
            ));
        }
        self.storage.write(changes).await?;
        let mut kept = self.kept();
        for index in gone {
            kept.entries.remove(&index);
        }
        kept.purged = purged.or(kept.purged);
        Ok(())
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError> {
        let kept = self.kept();
        let entries = kept.entries.range(range);
        Ok(entries.map(|(_, (entry, _))| entry.clone()).collect())
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, StorageError> {
        let kept = self.kept();
        let mut bytes = 0;
        let mut fits = |length: usize| {
            bytes += length;
            bytes == length || bytes <= BATCH_BYTES_MAX
        };
        let entries = kept.entries.range(start..end).map(|(_, entry)| entry);
        let batch = entries.take_while(|(_, length)| fits(*length));
        Ok(batch.map(|(entry, _)| entry.clone()).collect())
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let kept = self.kept();
        Ok(LogState {
            last_purged_log_id: kept.purged,
            last_log_id: kept.last(),
        })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let stored = self.store_vote(*vote).await;
        stored.map_err(|error| StorageIOError::write_vote(AnyError::new(&error)).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(self.vote())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        if let Some(committed) = &committed {
            let stored = self.set(COMMITTED, committed).await;
            stored.map_err(|error| StorageIOError::write_logs(AnyError::new(&error)))?;
        }
        self.kept().committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        Ok(self.kept().committed)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<Types>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let entries = entries.into_iter().collect();
        let stored = self.store(entries, None).await;
        stored.map_err(|error| StorageIOError::write_logs(AnyError::new(&error)))?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let dropped = self.drop_entries(log_id.index.., None).await;
        dropped.map_err(|error| StorageIOError::write_logs(AnyError::new(&error)).into())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let dropped = self.drop_entries(..=log_id.index, Some(log_id)).await;
        dropped.map_err(|error| StorageIOError::write_logs(AnyError::new(&error)).into())
    }
}
