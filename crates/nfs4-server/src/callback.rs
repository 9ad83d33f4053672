//! Calling clients back: word to those who wait for a byte-range lock that it may be free now
//! (RFC 8881, section 20.11, CB_NOTIFY_LOCK).
//!
//! Such a call is a hint. A client that misses it asks again by itself after a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nfs4::callback::{CbArgOp4, CbCompoundCall, CbCompoundRes, CbNotifyLockArgs, CbSequenceArgs};
use nfs4::{NfsFh4, NfsStat4, PROC_COMPOUND, StateOwner4};
use xdr::{Bytes, Decode, Reader, Writer};

use crate::service::Service;
use crate::state::{Callback, ClientId, FileKey};

/// Clients that wait for locks of one file; further ones are left to asking again.
const WAITERS_PER_FILE: usize = 64;
/// Files with waiters.
const FILES: usize = 4096;

/// A client that was refused a lock and wants to hear when it may be free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockWaiter {
    /// The client.
    pub(crate) client: ClientId,
    /// The lock-owner within it.
    pub(crate) owner: Bytes,
    /// The file, as the client knows it.
    pub(crate) handle: NfsFh4,
}

/// Who waits for which file's locks.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    waiting: Mutex<HashMap<FileKey, Vec<LockWaiter>>>,
}

impl Callbacks {
    /// Remembers a waiter, as far as there is room.
    pub(crate) fn wait(&self, file: FileKey, waiter: LockWaiter) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= FILES && !waiting.contains_key(&file) {
            return;
        }
        let waiters = waiting.entry(file).or_default();
        if waiters.len() < WAITERS_PER_FILE && !waiters.contains(&waiter) {
            waiters.push(waiter);
        }
    }

    fn take(&self, file: FileKey) -> Vec<LockWaiter> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&file).unwrap_or_default()
    }
}

impl Service {
    /// Tells those who wait for a file's locks that some were given back.
    pub(crate) fn locks_changed(&self, file: FileKey) {
        let waiters = self.callbacks.take(file);
        let Some(own) = self.own.upgrade().filter(|_| !waiters.is_empty()) else {
            return;
        };
        tokio::spawn(async move {
            for waiter in waiters {
                own.notify(waiter).await;
            }
        });
    }

    async fn notify(self: &Arc<Service>, waiter: LockWaiter) {
        let Some(callback) = self.state().begin_callback(waiter.client) else {
            return;
        };
        let answered = match self.call_back(&callback, &waiter).await {
            Ok(status) => {
                tracing::debug!(?status, client = ?waiter.client, "lock waiter notified");
                true
            }
            Err(error) => {
                tracing::info!(%error, client = ?waiter.client, "cannot call a client back");
                false
            }
        };
        self.state().end_callback(&callback, answered);
    }

    async fn call_back(
        &self,
        callback: &Callback,
        waiter: &LockWaiter,
    ) -> Result<NfsStat4, crate::CallbackError> {
        let connection = self
            .connection(callback.connection)
            .ok_or(crate::CallbackError::Closed)?;
        let call = CbCompoundCall {
            tag: Bytes::new(),
            minorversion: 1,
            ops: vec![
                CbArgOp4::Sequence(CbSequenceArgs {
                    sessionid: callback.session,
                    sequenceid: callback.sequence,
                    slotid: 0,
                    highest_slotid: 0,
                    cachethis: false,
                    referring_call_lists: Vec::new(),
                }),
                CbArgOp4::NotifyLock(CbNotifyLockArgs {
                    fh: waiter.handle.clone(),
                    lock_owner: StateOwner4 {
                        clientid: waiter.client.0,
                        owner: waiter.owner.clone(),
                    },
                }),
            ],
        };
        let mut writer = Writer::new();
        writer.write(&call);
        let reply = connection
            .call_back(
                callback.program,
                PROC_COMPOUND,
                callback.auth_sys,
                writer.finish(),
            )
            .await?;
        let reply = CbCompoundRes::decode(&mut Reader::new(reply))
            .map_err(|error| crate::CallbackError::Refused(error.to_string()))?;
        Ok(reply.status)
    }
}
