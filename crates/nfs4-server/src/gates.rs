//! Orders the requests of one client that open, close or lock the same file.
//!
//! Each such request first changes the file system and then the state tables. In between it waits, perhaps for another
//! site. So each gate is for one file and one client, and no other request waits at it. Owners belong to one client, so
//! requests of other clients use other state.
//!
//! What must never enter: waiting while the table is locked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::state::{ClientId, FileKey};

type Place = (ClientId, FileKey);

/// The gates that requests use now.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<HashMap<Place, Arc<AsyncMutex<()>>>>);

/// A passed gate. Dropping it lets the next request through.
#[derive(Debug)]
pub(crate) struct Gate<'g> {
    /// Dropped first, so that the gate is free when the visit ends.
    _passed: OwnedMutexGuard<()>,
    _visit: Visit<'g>,
}

/// A request at a gate, waiting or passed.
#[derive(Debug)]
struct Visit<'g> {
    gates: &'g Gates,
    place: Place,
    gate: Arc<AsyncMutex<()>>,
}

impl Gates {
    /// Waits until no other request works behind this gate.
    pub(crate) async fn pass(&self, client: ClientId, file: FileKey) -> Gate<'_> {
        let place = (client, file);
        let gate = self.table().entry(place).or_default().clone();
        let visit = Visit {
            gates: self,
            place,
            gate: gate.clone(),
        };
        Gate {
            _passed: gate.lock_owned().await,
            _visit: visit,
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Place, Arc<AsyncMutex<()>>>> {
        // The table stays consistent even if a holder panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut table = self.gates.table();
        // The table and this visit: any other visitor of the gate has added to the count under the same lock.
        if Arc::strong_count(&self.gate) == 2 {
            table.remove(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use vfs::ObjectId;

    use super::*;

    fn file(number: u64) -> FileKey {
        FileKey {
            tree: 0,
            object: ObjectId::from_u64(number),
        }
    }

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn requests_of_one_client_for_one_file_go_one_after_the_other() {
        let gates = Gates::default();
        let mut first = pin!(gates.pass(ClientId(1), file(1)));
        let Poll::Ready(passed) = poll(first.as_mut()) else {
            panic!("nobody is there");
        };
        let mut second = pin!(gates.pass(ClientId(1), file(1)));
        assert!(poll(second.as_mut()).is_pending());
        drop(passed);
        assert!(poll(second.as_mut()).is_ready());
    }

    #[test]
    fn other_clients_and_other_files_do_not_wait() {
        let gates = Gates::default();
        let mut slow = pin!(gates.pass(ClientId(1), file(1)));
        let _passed = poll(slow.as_mut());
        for number in 2..2000 {
            assert!(poll(pin!(gates.pass(ClientId(1), file(number)))).is_ready());
            assert!(poll(pin!(gates.pass(ClientId(number), file(1)))).is_ready());
        }
    }

    #[test]
    fn nothing_is_left_of_a_gate_where_nobody_stands() {
        let gates = Gates::default();
        {
            let mut first = pin!(gates.pass(ClientId(1), file(1)));
            let passed = poll(first.as_mut());
            {
                let mut gives_up = pin!(gates.pass(ClientId(1), file(1)));
                assert!(poll(gives_up.as_mut()).is_pending());
            }
            assert_eq!(gates.table().len(), 1);
            drop(passed);
        }
        assert!(gates.table().is_empty());
    }
}
