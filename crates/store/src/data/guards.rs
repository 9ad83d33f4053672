//! Locks for an object's data: shared for readers and writers, exclusive for operations that
//! truncate, punch or remove it.
//!
//! A guard exists only while a task holds or awaits it, so memory is bounded by the number of operations in
//! progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use vfs::ObjectId;

type Lock = Arc<RwLock<()>>;

/// The guards in use.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    locks: Mutex<HashMap<ObjectId, Lock>>,
}

/// Removes the lock of an object from the table when its last user is gone.
#[derive(Debug)]
struct Registration {
    guards: Arc<Guards>,
    id: ObjectId,
}

/// Held while data is read or written.
#[derive(Debug)]
pub(crate) struct Shared {
    // Dropped first, so that the registration sees whether other users are left.
    _lock: OwnedRwLockReadGuard<()>,
    _registration: Registration,
}

/// Held while no other task may touch the data.
#[derive(Debug)]
pub(crate) struct Exclusive {
    lock: OwnedRwLockWriteGuard<()>,
    registration: Registration,
}

impl Guards {
    pub(crate) async fn share(self: &Arc<Self>, id: ObjectId) -> Shared {
        let (lock, registration) = self.register(id);
        Shared {
            _lock: lock.read_owned().await,
            _registration: registration,
        }
    }

    pub(crate) async fn exclude(self: &Arc<Self>, id: ObjectId) -> Exclusive {
        let (lock, registration) = self.register(id);
        Exclusive {
            lock: lock.write_owned().await,
            registration,
        }
    }

    fn register(self: &Arc<Self>, id: ObjectId) -> (Lock, Registration) {
        let lock = Arc::clone(self.locks().entry(id).or_default());
        (
            lock,
            Registration {
                guards: Arc::clone(self),
                id,
            },
        )
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<ObjectId, Lock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exclusive {
    /// Downgrades to a shared guard; no other task can exclude it in between.
    pub(crate) fn share(self) -> Shared {
        Shared {
            _lock: self.lock.downgrade(),
            _registration: self.registration,
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut locks = self.guards.locks();
        // The table's own reference is the last one: no task holds the lock or waits for it.
        if locks
            .get(&self.id)
            .is_some_and(|lock| Arc::strong_count(lock) == 1)
        {
            locks.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn guards_leave_nothing_behind() {
        let guards = Arc::new(Guards::default());
        let (first, second) = (
            guards.share(ObjectId::ROOT).await,
            guards.share(ObjectId::ROOT).await,
        );
        drop(first);
        assert_eq!(guards.locks().len(), 1);
        drop(second);
        let shared = guards.exclude(ObjectId::ROOT).await.share();
        drop(shared);
        assert!(guards.locks().is_empty());
    }

    #[tokio::test]
    async fn one_who_excludes_waits_for_those_who_share() {
        let guards = Arc::new(Guards::default());
        let shared = guards.share(ObjectId::ROOT).await;
        let waiting = tokio::spawn({
            let guards = Arc::clone(&guards);
            async move { drop(guards.exclude(ObjectId::ROOT).await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(shared);
        waiting.await.unwrap();
        assert!(guards.locks().is_empty());
    }
}
