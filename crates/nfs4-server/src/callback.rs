//! Calling clients back: word to those who wait for a byte-range lock that it may be free now
//! (RFC 8881, section 20.11, CB_NOTIFY_LOCK).
//!
//! Such a call is a hint. A client that misses it asks again by itself after a while.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nfs4::callback::{
    CbArgOp4, CbCompoundCall, CbCompoundRes, CbNotifyLockArgs, CbResOp4, CbSequenceArgs,
};
use nfs4::{NfsFh4, NfsStat4, PROC_COMPOUND, StateOwner4};
use xdr::{Bytes, Decode, Reader, Writer};

use crate::connection::CallbackError;
use crate::service::Service;
use crate::state::{Callback, CallbackEnd, ClientId, FileKey};

/// Clients that wait for locks of one file; further ones are left to asking again.
const WAITERS_PER_FILE: usize = 64;
/// Words for one client that wait until it has answered another.
const WORDS_PER_CLIENT: usize = 1024;
/// Files with waiters.
const FILES: usize = 4096;
/// The most bytes that an RPC header with AUTH_SYS credentials takes (RFC 5531, section 9 and appendix A).
const RPC_CALL_HEADER_BYTES: usize = 6 * 4 + 8 + 400 + 8;

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

/// Who waits for which file's locks, and who is about to hear of it.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    waiting: Mutex<HashMap<FileKey, Vec<LockWaiter>>>,
    /// The words that clients are still to hear, one after the other. A client that is in here has a task
    /// that calls it.
    words: Mutex<HashMap<ClientId, VecDeque<LockWaiter>>>,
}

impl Callbacks {
    /// Remembers a waiter, as far as there is room.
    pub(crate) fn wait(&self, file: FileKey, waiter: LockWaiter) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= FILES && !waiting.contains_key(&file) {
            return;
        }
        let waiters = waiting.entry(file).or_default();
        if waiters.len() < WAITERS_PER_FILE && !waiters.contains(&waiter) {
            waiters.push(waiter);
        }
    }

    fn take(&self, file: FileKey) -> Vec<LockWaiter> {
        lock(&self.waiting).remove(&file).unwrap_or_default()
    }

    /// Puts a word in line. Whether nobody calls the client yet.
    fn line_up(&self, word: LockWaiter) -> bool {
        let mut words = lock(&self.words);
        let Some(line) = words.get_mut(&word.client) else {
            words.insert(word.client, VecDeque::from([word]));
            return true;
        };
        if line.len() < WORDS_PER_CLIENT && !line.contains(&word) {
            line.push_back(word);
        }
        false
    }

    /// The next word for a client; after the last one nobody calls it any more.
    fn next_word(&self, client: ClientId) -> Option<LockWaiter> {
        let mut words = lock(&self.words);
        let word = words.get_mut(&client)?.pop_front();
        if word.is_none() {
            words.remove(&client);
        }
        word
    }
}

/// The tables stay whole even if a holder panicked.
fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// Tells those who wait for a file's locks that some were given back. A client hears one word at a
    /// time, and a client that does not answer holds up no other.
    pub(crate) fn locks_changed(&self, file: FileKey) {
        let waiters = self.callbacks.take(file);
        let Some(own) = self.own.upgrade().filter(|_| !waiters.is_empty()) else {
            return;
        };
        for waiter in waiters {
            let client = waiter.client;
            if self.callbacks.line_up(waiter) {
                let own = own.clone();
                tokio::spawn(async move {
                    while let Some(word) = own.callbacks.next_word(client) {
                        own.notify(word).await;
                    }
                });
            }
        }
    }

    async fn notify(self: &Arc<Service>, waiter: LockWaiter) {
        let Some(callback) = self.state().begin_callback(waiter.client) else {
            return;
        };
        let end = match self.call_back(&callback, &waiter).await {
            Ok(end) => {
                tracing::debug!(?end, client = ?waiter.client, "lock waiter notified");
                end
            }
            Err(error) => {
                tracing::info!(%error, client = waiter.client.0, "cannot call a client back");
                CallbackEnd::Unanswered
            }
        };
        self.state().end_callback(&callback, end);
    }

    async fn call_back(
        &self,
        callback: &Callback,
        waiter: &LockWaiter,
    ) -> Result<CallbackEnd, CallbackError> {
        let connection = self
            .connection(callback.connection)
            .ok_or(CallbackError::Closed)?;
        let mut writer = Writer::new();
        writer.write(&notification(callback, waiter));
        if writer.position() + RPC_CALL_HEADER_BYTES > callback.request_bytes as usize {
            // The client has no room for this lock-owner's name; it asks again by itself.
            return Ok(CallbackEnd::Refused);
        }
        let reply = connection
            .call_back(
                callback.program,
                PROC_COMPOUND,
                &callback.credentials,
                writer.finish(),
            )
            .await?;
        let reply = CbCompoundRes::decode(&mut Reader::new(reply))
            .map_err(|error| CallbackError::Refused(error.to_string()))?;
        Ok(end_of(&reply))
    }
}

/// The call that tells a waiter of its lock.
fn notification(callback: &Callback, waiter: &LockWaiter) -> CbCompoundCall {
    CbCompoundCall {
        tag: Bytes::new(),
        minorversion: callback.minor_version,
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
    }
}

/// Whether the client has used the sequence number up: it executed the call, or says that it did so before.
fn end_of(reply: &CbCompoundRes) -> CallbackEnd {
    match reply.results.first().map(CbResOp4::status) {
        Some(NfsStat4::Ok | NfsStat4::RetryUncachedRep) => CallbackEnd::Executed,
        _ => CallbackEnd::Refused,
    }
}
