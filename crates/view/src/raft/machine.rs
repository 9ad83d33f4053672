//! The state machine: applies entries to a [`ViewState`], shows it, and keeps one snapshot on stable storage.
//!
//! Key `s`. What must never enter: the effect of a decision, which is in `state`.

use std::io::Cursor;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{AnyError, EntryPayload, RaftSnapshotBuilder, Snapshot, StorageIOError};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};

use super::log::read_one;
use super::types::{Entry, LogId, SnapshotMeta, StorageError, Stored, Types};
use crate::bytes::{decode, encode};
use crate::decision::Outcome;
use crate::error::ViewError;
use crate::stable_storage::{StableStorage, StableStorageError};
use crate::state::ViewState;

const SNAPSHOT: &[u8] = b"s";

/// Applies entries, and publishes the state.
pub(crate) struct Machine {
    snapshots: Arc<Snapshots>,
    state: watch::Sender<Arc<ViewState>>,
    applied: Option<LogId>,
    membership: Stored,
}

/// The storage of the snapshot.
struct Snapshots {
    storage: Arc<dyn StableStorage>,
    kept: Mutex<Option<Kept>>,
}

/// A snapshot: `data` is an encoded [`ViewState`].
#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    meta: SnapshotMeta,
    data: Vec<u8>,
}

/// [`crate::decode_as_anything`] for a stored snapshot.
pub(super) fn decode_as_anything(bytes: &[u8]) {
    drop(decode::<Kept>(bytes));
}

impl Kept {
    fn snapshot(&self) -> Snapshot<Types> {
        Snapshot {
            meta: self.meta.clone(),
            snapshot: Box::new(Cursor::new(self.data.clone())),
        }
    }
}

impl Snapshots {
    /// Stores a snapshot durably, unless a later one is stored. Returns the stored one.
    async fn keep(&self, new: Kept) -> Result<Kept, StableStorageError> {
        let mut kept = self.kept.lock().await;
        if let Some(old) = &*kept
            && old.meta.last_log_id > new.meta.last_log_id
        {
            return Ok(old.clone());
        }
        let value = encode(&new).map_err(StableStorageError)?;
        let change = (SNAPSHOT.to_vec(), Some(value));
        self.storage.write(vec![change]).await?;
        *kept = Some(new.clone());
        Ok(new)
    }
}

impl Machine {
    /// The state as of the last snapshot.
    pub(crate) async fn open(storage: Arc<dyn StableStorage>) -> Result<Machine, ViewError> {
        let kept: Option<Kept> = read_one(&*storage, SNAPSHOT).await?;
        let mut machine = Machine {
            snapshots: Arc::new(Snapshots {
                storage,
                kept: Mutex::new(kept.clone()),
            }),
            state: watch::Sender::new(Arc::default()),
            applied: None,
            membership: Stored::default(),
        };
        if let Some(kept) = kept {
            let state = decode(&kept.data).map_err(ViewError::Damaged)?;
            machine.show(state, &kept.meta);
        }
        Ok(machine)
    }

    /// The applied state.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<ViewState>> {
        self.state.subscribe()
    }

    /// The last applied entry.
    pub(crate) fn applied(&self) -> Option<LogId> {
        self.applied
    }

    fn show(&mut self, state: ViewState, meta: &SnapshotMeta) {
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.state.send_replace(Arc::new(state));
    }

    /// Applies entries, in their order.
    pub(crate) fn carry_out(&mut self, entries: impl IntoIterator<Item = Entry>) -> Vec<Outcome> {
        let mut state = ViewState::clone(&self.state.borrow());
        let mut is_changed = false;
        let mut outcomes = Vec::new();
        for entry in entries {
            self.applied = Some(entry.log_id);
            outcomes.push(match entry.payload {
                EntryPayload::Blank => Outcome::Applied,
                EntryPayload::Membership(membership) => {
                    self.membership = Stored::new(Some(entry.log_id), membership);
                    Outcome::Applied
                }
                EntryPayload::Normal(command) => {
                    let outcome = state.apply(&command);
                    is_changed |= outcome == Outcome::Applied;
                    outcome
                }
            });
        }
        if is_changed {
            self.state.send_replace(Arc::new(state));
        }
        outcomes
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, Stored), StorageError> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Outcome>, StorageError>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        Ok(self.carry_out(entries))
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder {
            snapshots: Arc::clone(&self.snapshots),
            state: Arc::clone(&self.state.borrow()),
            applied: self.applied,
            membership: self.membership.clone(),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let new = Kept {
            meta: meta.clone(),
            data: snapshot.into_inner(),
        };
        let state = decode(&new.data).map_err(|error| {
            StorageIOError::read_snapshot(Some(meta.signature()), AnyError::error(error))
        })?;
        let kept = self.snapshots.keep(new).await;
        kept.map_err(|error| {
            StorageIOError::write_snapshot(Some(meta.signature()), AnyError::new(&error))
        })?;
        self.show(state, meta);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, StorageError> {
        Ok(self
            .snapshots
            .kept
            .lock()
            .await
            .as_ref()
            .map(Kept::snapshot))
    }
}

/// Makes a snapshot of one moment, while more entries are applied.
pub(crate) struct Builder {
    snapshots: Arc<Snapshots>,
    state: Arc<ViewState>,
    applied: Option<LogId>,
    membership: Stored,
}

impl RaftSnapshotBuilder<Types> for Builder {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError> {
        let applied = self.applied.unwrap_or_default();
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
            snapshot_id: applied.to_string(),
        };
        let failed = |error: StableStorageError| {
            StorageIOError::write_snapshot(Some(meta.signature()), AnyError::new(&error))
        };
        let data = encode(&*self.state).map_err(|error| failed(StableStorageError(error)))?;
        let new = Kept {
            meta: meta.clone(),
            data,
        };
        let kept = self.snapshots.keep(new).await.map_err(failed)?;
        Ok(kept.snapshot())
    }
}
