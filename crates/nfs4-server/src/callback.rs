//! Calls to clients: a byte-range lock may be free, a layout is recalled, or a device no longer exists (RFC 8881,
//! sections 20.11, 20.3 and 20.12).
//!
//! No such call is essential. A client that waits for a lock asks again after a while. The home of a file repeats a
//! recall, and finally continues without the client. A client that calls a removed data server gets an error there.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nfs4::callback::{
    CbArgOp4, CbCompoundCall, CbCompoundRes, CbLayoutrecallArgs, CbNotifyDeviceidArgs,
    CbNotifyLockArgs, CbResOp4, CbSequenceArgs, Layoutrecall4, LayoutrecallFile4, Notify4,
    NotifyDeviceidDelete4, NotifyDeviceidType4,
};
use nfs4::{
    Deviceid4, LayoutIomode4, NfsFh4, NfsStat4, PROC_COMPOUND, StateOwner4, Stateid4, layout_type,
};
use throttle::Throttle;
use xdr::{Bytes, Decode, Reader, Writer};

use crate::connection::CallbackError;
use crate::handle::FileHandle;
use crate::layouts::{DeviceId, LayoutEvent, LayoutHolder};
use crate::service::Service;
use crate::state::{Callback, CallbackEnd, ClientId, FileKey};

/// Logs clients that cannot be called once, and later with a count.
static UNHEARD: Throttle = Throttle::new();
const UNREACHED: throttle::Subject = ("a client cannot be called back", 0);
/// The maximum number of waiting clients for locks of one file; further ones have to ask again.
const WAITERS_PER_FILE: usize = 64;
/// The maximum number of calls that wait until the client has answered an earlier one.
const WORDS_PER_CLIENT: usize = 1024;
/// The maximum number of waiters of one client, and of all clients; further ones have to ask again.
const WAITERS_OF_CLIENT: usize = 1024;
const WAITERS: usize = 16_384;
/// The maximum size of an RPC header with AUTH_SYS credentials (RFC 5531, section 9 and appendix A).
const RPC_CALL_HEADER_BYTES: usize = 6 * 4 + 8 + 400 + 8;

/// A client that was refused a lock and wants to be told when it may be free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockWaiter {
    /// The client.
    pub(crate) client: ClientId,
    /// The lock-owner of that client.
    pub(crate) owner: Bytes,
    /// The file's handle for the client.
    pub(crate) handle: NfsFh4,
}

/// A message to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// A lock may be free now.
    LockFree(LockWaiter),
    /// A layout is recalled.
    Recall(LayoutHolder),
    /// A device no longer exists.
    DeviceGone(DeviceId),
}

/// The clients that wait for locks, and the messages for clients.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    waiting: Mutex<Waiting>,
    /// The messages for each client, in order. If a client is in this map, a task is calling it.
    words: Mutex<HashMap<ClientId, VecDeque<Word>>>,
}

/// The clients that wait for locks.
#[derive(Debug, Default)]
struct Waiting {
    files: HashMap<FileKey, Vec<LockWaiter>>,
    /// The number of waiters of each client.
    of_clients: HashMap<ClientId, usize>,
    count: usize,
}

impl Waiting {
    fn add(&mut self, file: FileKey, waiter: LockWaiter) {
        let of_client = self.of_clients.get(&waiter.client).copied();
        let of_client = of_client.unwrap_or_default();
        let of_file = self.files.get(&file).map_or(&[][..], Vec::as_slice);
        let fits = self.count < WAITERS
            && of_client < WAITERS_OF_CLIENT
            && of_file.len() < WAITERS_PER_FILE;
        if fits && !of_file.contains(&waiter) {
            self.count += 1;
            self.of_clients.insert(waiter.client, of_client + 1);
            self.files.entry(file).or_default().push(waiter);
        }
    }

    fn take(&mut self, file: FileKey) -> Vec<LockWaiter> {
        let taken = self.files.remove(&file).unwrap_or_default();
        self.count -= taken.len();
        for waiter in &taken {
            if let Some(count) = self.of_clients.get_mut(&waiter.client) {
                *count -= 1;
                if *count == 0 {
                    self.of_clients.remove(&waiter.client);
                }
            }
        }
        taken
    }

    fn forget(&mut self, clients: &[ClientId]) {
        self.files.retain(|_, waiters| {
            waiters.retain(|waiter| !clients.contains(&waiter.client));
            !waiters.is_empty()
        });
        for client in clients {
            self.count -= self.of_clients.remove(client).unwrap_or_default();
        }
    }
}

impl Callbacks {
    /// Records a waiter, if there is space.
    pub(crate) fn wait(&self, file: FileKey, waiter: LockWaiter) {
        lock(&self.waiting).add(file, waiter);
    }

    fn take(&self, file: FileKey) -> Vec<LockWaiter> {
        lock(&self.waiting).take(file)
    }

    /// The clients that wait for locks.
    fn waiting_clients(&self) -> Vec<ClientId> {
        lock(&self.waiting).of_clients.keys().copied().collect()
    }

    /// Queues a message. Returns whether no task is calling the client yet.
    fn line_up(&self, client: ClientId, word: Word) -> bool {
        let mut words = lock(&self.words);
        let Some(line) = words.get_mut(&client) else {
            words.insert(client, VecDeque::from([word]));
            return true;
        };
        if line.len() < WORDS_PER_CLIENT && !line.contains(&word) {
            line.push_back(word);
        }
        false
    }

    /// The next message for a client. After the last one, no task calls the client any more.
    fn next_word(&self, client: ClientId) -> Option<Word> {
        let mut words = lock(&self.words);
        let word = words.get_mut(&client)?.pop_front();
        if word.is_none() {
            words.remove(&client);
        }
        word
    }
}

/// The tables stay consistent even if a holder panicked.
fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// Removes the waiters of clients that have gone, because they would prevent others from being told.
    pub(crate) fn forget_waiters(&self) {
        let clients = self.callbacks.waiting_clients();
        let gone: Vec<ClientId> = {
            let state = self.state();
            let clients = clients.into_iter();
            clients
                .filter(|client| state.client_name(*client).is_none())
                .collect()
        };
        if !gone.is_empty() {
            lock(&self.callbacks.waiting).forget(&gone);
        }
    }

    /// Tells the clients that wait for a file's locks that some were released.
    pub(crate) fn locks_changed(&self, file: FileKey) {
        for waiter in self.callbacks.take(file) {
            self.tell(waiter.client, Word::LockFree(waiter));
        }
    }

    /// Tells the affected clients about an event of layouts.
    pub(crate) fn layout_event(&self, event: LayoutEvent) {
        match event {
            LayoutEvent::Recall(holder) => {
                let client = self.state().layout_client(holder);
                if let Some(client) = client {
                    self.tell(client, Word::Recall(holder));
                }
            }
            LayoutEvent::DeviceGone(device) => {
                let clients = self.state().device_gone(device);
                for client in clients {
                    self.tell(client, Word::DeviceGone(device));
                }
            }
        }
    }

    /// Sends a message. A client gets one message at a time, and a client that does not answer does not delay others.
    fn tell(&self, client: ClientId, word: Word) {
        let Some(own) = self.own.upgrade() else {
            return;
        };
        if self.callbacks.line_up(client, word) {
            tokio::spawn(async move {
                while let Some(word) = own.callbacks.next_word(client) {
                    own.notify(client, word).await;
                }
            });
        }
    }

    async fn notify(self: &Arc<Service>, client: ClientId, word: Word) {
        let Some(operation) = self.operation_for(&word) else {
            return;
        };
        let Some(callback) = self.state().begin_callback(client) else {
            return;
        };
        let (end, status) = match self.call_back(&callback, operation).await {
            Ok((end, status)) => {
                let is_executed = end == CallbackEnd::Executed;
                tracing::debug!(is_executed, client = client.0, "client called back");
                (end, status)
            }
            Err(error) => {
                if let Some(sum) = UNHEARD.failed(UNREACHED, Instant::now()) {
                    tracing::info!(%error, client = client.0, %sum, "cannot call a client back");
                }
                (CallbackEnd::Unanswered, None)
            }
        };
        self.state().end_callback(&callback, end);
        if let (Word::Recall(holder), Some(NfsStat4::NoMatchingLayout)) = (word, status) {
            let release = self.state().layout_is_unknown(holder);
            self.release(release.into_iter().collect()).await;
        }
    }

    /// The operation for a message. `None` when the client does not need it any more.
    fn operation_for(&self, word: &Word) -> Option<CbArgOp4> {
        Some(match word {
            Word::LockFree(waiter) => CbArgOp4::NotifyLock(CbNotifyLockArgs {
                fh: waiter.handle.clone(),
                lock_owner: StateOwner4 {
                    clientid: waiter.client.0,
                    owner: waiter.owner.clone(),
                },
            }),
            Word::Recall(holder) => {
                let (_, file, stateid) = self.state().recall_layout(*holder)?;
                CbArgOp4::Layoutrecall(self.recall_of(file, stateid))
            }
            Word::DeviceGone(device) => deletion_of(*device),
        })
    }

    /// Recalls the whole layout, in any mode. It has not changed, so the client can first commit what it wrote.
    fn recall_of(&self, file: FileKey, stateid: Stateid4) -> CbLayoutrecallArgs {
        let fs_id = self.file_system(file).properties().fs_id;
        CbLayoutrecallArgs {
            layout_type: layout_type::NFSV4_1_FILES,
            iomode: LayoutIomode4::Any,
            changed: false,
            recall: Layoutrecall4::File(LayoutrecallFile4 {
                fh: FileHandle::Object(fs_id, file.object).encode(),
                offset: 0,
                length: u64::MAX,
                stateid,
            }),
        }
    }

    async fn call_back(
        &self,
        callback: &Callback,
        operation: CbArgOp4,
    ) -> Result<(CallbackEnd, Option<NfsStat4>), CallbackError> {
        let connection = self
            .connection(callback.connection)
            .ok_or(CallbackError::Closed)?;
        let mut writer = Writer::new();
        writer.write(&call_with(callback, operation));
        if writer.position() + RPC_CALL_HEADER_BYTES > callback.request_bytes as usize {
            // The message is too large for the client, for example because of a lock-owner's long name.
            return Ok((CallbackEnd::Refused, None));
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
        Ok((end_of(&reply), reply.results.get(1).map(CbResOp4::status)))
    }
}

/// Tells clients that a device no longer exists. They ask for a new layout if they need one.
fn deletion_of(device: DeviceId) -> CbArgOp4 {
    let mut writer = Writer::new();
    writer.write(&NotifyDeviceidDelete4 {
        layout_type: layout_type::NFSV4_1_FILES,
        deviceid: Deviceid4(device.0),
    });
    CbArgOp4::NotifyDeviceid(CbNotifyDeviceidArgs {
        changes: vec![Notify4 {
            mask: [u32::from(NotifyDeviceidType4::Delete)]
                .into_iter()
                .collect(),
            values: writer.into_bytes(),
        }],
    })
}

/// A call with one operation.
fn call_with(callback: &Callback, operation: CbArgOp4) -> CbCompoundCall {
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
            operation,
        ],
    }
}

/// Whether the client has used up the sequence number: it executed the call, or says that it did so before.
fn end_of(reply: &CbCompoundRes) -> CallbackEnd {
    match reply.results.first().map(CbResOp4::status) {
        Some(NfsStat4::Ok | NfsStat4::RetryUncachedRep) => CallbackEnd::Executed,
        _ => CallbackEnd::Refused,
    }
}

#[cfg(test)]
mod tests {
    use vfs::ObjectId;

    use super::*;

    fn file(number: usize) -> FileKey {
        FileKey {
            tree: 0,
            object: ObjectId::from_u64(number as u64),
        }
    }

    fn waiter(client: usize, owner: usize) -> LockWaiter {
        LockWaiter {
            client: ClientId(client as u64),
            owner: Bytes::from(owner.to_string()),
            handle: NfsFh4::default(),
        }
    }

    #[test]
    fn one_client_that_waits_for_everything_leaves_space_for_others() {
        let mut waiting = Waiting::default();
        for number in 0..2 * WAITERS_OF_CLIENT {
            waiting.add(file(number), waiter(1, 0));
        }
        assert_eq!(waiting.count, WAITERS_OF_CLIENT);
        waiting.add(file(0), waiter(2, 0));
        waiting.add(file(0), waiter(2, 0));
        assert_eq!(waiting.take(file(0)), [waiter(1, 0), waiter(2, 0)]);
        waiting.add(file(7), waiter(1, 1));
        assert_eq!(waiting.take(file(7)), [waiter(1, 0), waiter(1, 1)]);
    }

    #[test]
    fn waiters_are_bounded_for_a_file_and_in_all() {
        let mut waiting = Waiting::default();
        for client in 0..2 * WAITERS_PER_FILE {
            waiting.add(file(0), waiter(client, 0));
        }
        assert_eq!(waiting.count, WAITERS_PER_FILE);
        for number in 0..2 * WAITERS {
            waiting.add(file(1 + number), waiter(number, 0));
        }
        assert_eq!(waiting.count, WAITERS);
        for number in 0..=2 * WAITERS {
            waiting.take(file(number));
        }
        assert!(waiting.files.is_empty() && waiting.of_clients.is_empty());
        assert_eq!(waiting.count, 0);
    }
}
