//! Calls to a client that wait for its answer.
//!
//! What must never enter: the connection.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use xdr::Bytes;

/// The pending calls on one connection, by transaction number.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u32,
    waiting: HashMap<u32, oneshot::Sender<Bytes>>,
    closed: bool,
}

/// One pending call. Dropping it abandons the call.
#[derive(Debug)]
pub(super) struct PendingCall<'c> {
    calls: &'c PendingCalls,
    /// The transaction number of the answer.
    pub(super) transaction: u32,
    answer: oneshot::Receiver<Bytes>,
}

impl PendingCalls {
    /// Registers a call; `None` when no answer can come any more.
    pub(super) fn expect(&self) -> Option<PendingCall<'_>> {
        let mut table = self.table();
        if table.closed {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        while table.waiting.contains_key(&table.next) {
            table.next = table.next.wrapping_add(1);
        }
        let transaction = table.next;
        table.next = table.next.wrapping_add(1);
        table.waiting.insert(transaction, sender);
        Some(PendingCall {
            calls: self,
            transaction,
            answer,
        })
    }

    /// Passes an answer to the waiting caller; an unexpected answer is dropped.
    pub(super) fn answered(&self, transaction: u32, record: Bytes) {
        let waiting = self.table().waiting.remove(&transaction);
        if let Some(waiting) = waiting {
            // The call may have been abandoned at this moment.
            let _ = waiting.send(record);
        }
    }

    /// Ends all calls, now and in future.
    pub(super) fn close(&self) {
        let mut table = self.table();
        table.closed = true;
        table.waiting.clear();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingCall<'_> {
    /// Waits for the answer: the whole record. `None` when the connection is gone.
    pub(super) async fn answer(mut self) -> Option<Bytes> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.calls.table().waiting.remove(&self.transaction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_find_their_calls() {
        let calls = PendingCalls::default();
        let first = calls.expect().unwrap();
        let second = calls.expect().unwrap();
        assert_ne!(first.transaction, second.transaction);
        calls.answered(second.transaction, Bytes::from_static(b"two"));
        calls.answered(999, Bytes::from_static(b"nobody's"));
        calls.answered(first.transaction, Bytes::from_static(b"one"));
        assert_eq!(first.answer().await.unwrap(), "one");
        assert_eq!(second.answer().await.unwrap(), "two");
    }

    #[tokio::test]
    async fn a_call_given_up_leaves_nothing_behind() {
        let calls = PendingCalls::default();
        let call = calls.expect().unwrap();
        let transaction = call.transaction;
        drop(call);
        calls.answered(transaction, Bytes::from_static(b"late"));
        assert!(calls.table().waiting.is_empty());
    }

    #[tokio::test]
    async fn closing_ends_every_wait() {
        let calls = PendingCalls::default();
        let call = calls.expect().unwrap();
        calls.close();
        assert_eq!(call.answer().await, None);
        assert!(calls.expect().is_none());
    }
}
